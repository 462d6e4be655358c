"""Slots for stages that ask a model: only deployed runs acquire one, and only if the limit exists on the server."""

import contextlib
from collections.abc import Callable, Iterator

import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate
from prefect.exceptions import ObjectNotFound
from prefect.flow_engine import run_flow

from flows.jobs.limits import MODELS, acquire_slot
from schemas.llm import ModelName
from schemas.settings import Settings


class Asking(Settings):
    model: ModelName | None = None


ASKING = Asking(model=ModelName(provider="p", model="m"))

slots: list[int] = []
"""Number of slots in use during each run."""


@flow(name="holds-a-slot")
def hold(settings: Asking) -> None:
    with get_client(sync_client=True) as client, acquire_slot(settings):
        try:
            slots.append(client.read_global_concurrency_limit_by_name(MODELS).active_slots)
        except ObjectNotFound:
            slots.append(0)


@pytest.fixture
def as_deployed(prefect_server: None) -> Iterator[Callable[[Asking], None]]:
    """Returns a function that runs the flow as a deployment does."""
    with get_client(sync_client=True) as client:
        deployment = client.create_deployment(flow_id=client.create_flow(hold), name="d")

        def run(settings: Asking) -> None:
            made = client.create_flow_run_from_deployment(deployment)
            run_flow(hold, flow_run=made, parameters={"settings": settings})

        yield run


def test_a_deployed_stage_that_asks_a_model_holds_a_slot_and_needs_the_limit_to_exist(as_deployed):
    slots.clear()
    with get_client(sync_client=True) as client:
        with contextlib.suppress(ObjectNotFound):
            client.delete_global_concurrency_limit_by_name(MODELS)
        hold(ASKING)  # no deployment, no limit needed
        as_deployed(Asking())  # asks no model
        assert slots == [0, 0]
        with pytest.raises(Exception, match=MODELS):
            as_deployed(ASKING)

        client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name=MODELS, limit=1))
        as_deployed(ASKING)
        hold(ASKING)
        assert slots == [0, 0, 1, 0]
        assert client.read_global_concurrency_limit_by_name(MODELS).active_slots == 0
