"""Stages as Prefect tasks, against a real Prefect API: states, retries, forced stages, messages."""

import shutil
from collections import Counter
from uuid import UUID

import pytest
from prefect import flow
from prefect.client.schemas.objects import TaskRun
from prefect.states import State

from flows.jobs import as_task
from flows.pipeline.stages import StageControl
from flows.pipeline.walk import Pipeline
from schemas.errors import StageFailed, TransientError
from schemas.settings import Resources
from tests.flows.conftest import ended_tasks

pytestmark = pytest.mark.usefixtures("prefect_server")


def run_chain(store, steps, force=()) -> State:
    @flow(name="chain")
    def chain_flow():
        control = StageControl(force=force)
        Pipeline(store, "e", as_task.task_executor(store, Resources()), control).walk(steps, release="r")

    return chain_flow(return_state=True)


def task_runs(state: State) -> dict[str, TaskRun]:
    """Returns the tasks of the flow run by slot."""
    return ended_tasks(state.state_details.flow_run_id)


def task_states(state: State) -> dict[str, str]:
    return {name: run.state_name for name, run in task_runs(state).items()}


ALL_CACHED = {"papers": "Cached", "surveys": "Cached", "references": "Cached"}


def test_a_second_run_is_cached(store, chain):
    first = run_chain(store, chain.steps(42))
    second = run_chain(store, chain.steps(42))

    assert task_states(first) == {"papers": "Completed", "surveys": "Completed", "references": "Completed"}
    assert task_states(second) == ALL_CACHED
    assert Counter(chain.executed) == {"papers": 1, "surveys": 1, "references": 1}


def test_the_graph_shows_what_a_stage_was_made_from(store, chain):
    runs = task_runs(run_chain(store, chain.steps(42)))

    def sources(name: str) -> set[UUID]:
        return {source.id for source in runs[name].task_inputs["inputs"]}

    assert sources("papers") == set()
    assert sources("surveys") == {runs["papers"].id}
    assert sources("references") == {runs["surveys"].id}


def test_what_was_built_without_a_server_is_cached(store, chain, pipeline):
    pipeline.walk(chain.steps(42), release="r")

    assert task_states(run_chain(store, chain.steps(42))) == ALL_CACHED


def test_a_deleted_dataset_is_built_again_and_not_reported_as_cached(store, chain, pipeline):
    built = pipeline.walk(chain.steps(42), release="r")
    run_chain(store, chain.steps(42))
    shutil.rmtree(store.folder(built["surveys"]))

    assert task_states(run_chain(store, chain.steps(42))) == ALL_CACHED | {"surveys": "Completed"}
    assert store.find("surveys", built["surveys"].key) is not None


def test_a_forced_stage_executes_and_equal_bytes_keep_the_rest_cached(store, chain, pipeline):
    pipeline.walk(chain.steps(42), release="r")

    assert task_states(run_chain(store, chain.steps(42), force=("papers",))) == ALL_CACHED | {"papers": "Completed"}


def test_a_failure_names_the_stage_the_cause_and_the_remedy(store, chain):
    chain.trouble.append(ValueError("no such column"))

    failed = run_chain(store, chain.steps(42))

    assert failed.is_failed()
    for part in ("stage surveys", "no such column", "run it again"):
        assert part in failed.message
    with pytest.raises(StageFailed):
        failed.result()
    assert task_states(failed) == {"papers": "Completed", "surveys": "Failed"}
    assert task_states(run_chain(store, chain.steps(42)))["papers"] == "Cached"


def test_only_transient_errors_are_retried(store, chain, monkeypatch):
    monkeypatch.setattr(as_task._build_stage, "retry_delay_seconds", 0)
    chain.trouble += [TransientError("the service is busy"), TransientError("the service is busy")]

    assert run_chain(store, chain.steps(42)).is_completed()
    assert Counter(chain.executed) == {"papers": 1, "surveys": 1, "references": 1}

    chain.trouble += [ValueError("wrong"), ValueError("never reached")]
    assert run_chain(store, chain.steps(52)).is_failed()
    assert len(chain.trouble) == 1
