"""Limits that hold across machines: how many stages may ask a language model at the same time.

What belongs here: taking a place, and giving it back. What does not: how many places there are (`catalogue`), rates
within a process (`tasks/llm`).
"""

from collections.abc import Generator
from contextlib import contextmanager

from prefect import runtime
from prefect.concurrency.sync import concurrency

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
    if runtime.deployment.id is None or not isinstance(getattr(settings, "model", None), ModelName):  # pyright: ignore[reportAttributeAccessIssue]
        yield
        return
    with concurrency(MODELS, occupy=1, lease_duration=LEASE, strict=True, raise_on_lease_renewal_failure=False):
        yield
