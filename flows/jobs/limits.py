"""Limits across machines: how many stages may call a language model at the same time."""

from collections.abc import Generator
from contextlib import contextmanager

from prefect.concurrency.sync import concurrency
from prefect.context import FlowRunContext

from schemas.llm import ModelName
from schemas.settings import Settings

MODELS = "language-models"
"""Name of the limit."""

LEASE = 120.0
"""Seconds after which the slot of a killed run is free again."""


@contextmanager
def acquire_slot(settings: Settings) -> Generator[None]:
    """Waits for a slot and holds it, if the stage calls a language model and belongs to a deployed run.

    A missing limit is an error, not permission. Runs without a deployment (`arena demo`, a script) take no slot:
    nobody has set up limits on their server.
    """
    if not isinstance(getattr(settings, "model", None), ModelName) or not is_deployed():
        yield
        return
    with concurrency(MODELS, occupy=1, lease_duration=LEASE, strict=True, raise_on_lease_renewal_failure=False):
        yield


def is_deployed() -> bool:
    """Returns whether the current flow run belongs to a deployment. `prefect.runtime` would ask the server."""
    context = FlowRunContext.get()
    return bool(context and context.flow_run and context.flow_run.deployment_id)
