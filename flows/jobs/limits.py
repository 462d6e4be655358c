"""Limits that hold across machines: how many stages may ask a language model at the same time."""

from collections.abc import Generator
from contextlib import contextmanager

from prefect.concurrency.sync import concurrency
from prefect.context import FlowRunContext

from schemas.llm import ModelName
from schemas.settings import Settings

MODELS = "language-models"
"""The limit's name."""

LEASE = 120.0
"""Seconds after which the place of a killed run is free again."""


@contextmanager
def take_place(settings: Settings) -> Generator[None]:
    """Waits for a place when a deployed run's stage asks a language model, and holds it.

    Always strict: a limit that nobody set up is an error and not permission. Runs without a deployment (`arena demo`, a
    script) know no server that was set up, and take no place.
    """
    if not isinstance(getattr(settings, "model", None), ModelName) or not _is_deployed():
        yield
        return
    with concurrency(MODELS, occupy=1, lease_duration=LEASE, strict=True, raise_on_lease_renewal_failure=False):
        yield


def _is_deployed() -> bool:
    """Whether the flow run around us is one of a deployment; `prefect.runtime` would ask the server every time."""
    context = FlowRunContext.get()
    return bool(context and context.flow_run and context.flow_run.deployment_id)
