"""Places for stages that ask a model: taken by deployed runs alone, and never without a limit that someone set up."""

import contextlib

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate
from prefect.exceptions import ObjectNotFound

from flows.limits import MODELS, take_place
from schemas.llm import ModelName
from schemas.settings import Settings


class Asking(Settings):
    model: ModelName | None = None


ASKING = Asking(model=ModelName(provider="p", model="m"))


@pytest.mark.usefixtures("prefect_server")
def test_a_deployed_stage_that_asks_a_model_holds_a_place_and_needs_the_limit_to_exist(monkeypatch):
    with get_client(sync_client=True) as client:
        with contextlib.suppress(ObjectNotFound):
            client.delete_global_concurrency_limit_by_name(MODELS)
        with take_place(ASKING):
            pass  # no deployment, no limit needed
        monkeypatch.setenv("PREFECT__RUNTIME__DEPLOYMENT__ID", "d")
        with take_place(Asking()):
            pass  # asks no model
        with pytest.raises(Exception, match=MODELS), take_place(ASKING):
            pytest.fail("a missing limit is no permission")

        client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name=MODELS, limit=1))
        with take_place(ASKING):
            assert client.read_global_concurrency_limit_by_name(MODELS).active_slots == 1
        assert client.read_global_concurrency_limit_by_name(MODELS).active_slots == 0
