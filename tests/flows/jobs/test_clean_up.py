"""Clean-up only lists what it could delete until it is told to delete; then artifacts go with their runs."""

import os
from datetime import UTC, datetime, timedelta

import pytest
from prefect import flow
from prefect.artifacts import create_table_artifact
from prefect.client.orchestration import get_client
from prefect.exceptions import ObjectNotFound

from flows.jobs.clean_up import clean_up, delete_runs_with_artifacts, ended_before
from flows.pipeline.machine import StoreFolder
from schemas.errors import StoreError
from tasks.store.editions import Editions

pytestmark = pytest.mark.usefixtures("prefect_server")


@flow(name="old")
def old_flow():
    create_table_artifact([{"a": 1}], key="old")


def test_old_runs_are_deleted_with_their_artifacts_and_others_stay():
    run = old_flow(return_state=True).state_details.flow_run_id
    with get_client(sync_client=True) as client:
        now = datetime.now(UTC)
        assert run not in ended_before(client, now - timedelta(days=1))
        assert run in ended_before(client, now + timedelta(minutes=1))
        delete_runs_with_artifacts(client, [run, run])

        with pytest.raises(ObjectNotFound):
            client.read_flow_run(run)
        assert run not in {artifact.flow_run_id for artifact in client.read_artifacts()}


def test_the_store_is_cleaned_only_when_told_to(store, chain, pipeline):
    pipeline.walk(chain.steps(42), release="r")
    before = Editions(store).load("e").slots
    pipeline.walk(chain.steps(52), release="r")
    folder = StoreFolder(root=store.root)

    assert clean_up(folder=folder) == []  # everything was changed less than a day ago
    kept = {store.folder(ref) for ref in Editions(store).load("e").slots.values()}
    gone = {store.folder(ref) for ref in before.values()} - kept
    for place in gone:
        os.utime(place, (0, 0))

    assert {row["path"] for row in clean_up(folder=folder)} == {str(place) for place in gone}
    assert all(place.exists() for place in gone)
    clean_up(folder=folder, delete_data=True)
    number = store.folder(next(iter(Editions(store).load("e").slots.values()))) / "number"
    number.write_text("53" if number.read_text() == "52" else "52")
    with pytest.raises(StoreError, match=r"1 damaged datasets, the first: .*arena rerun --damaged --edition e"):
        clean_up(folder=folder, reread_days=0)
    assert not any(place.exists() for place in gone)
    assert all(place.exists() for place in kept)
