"""The real flows on a small release: they finish, publish artifacts, and describe their parameters."""

import shutil

import pytest
from prefect.client.orchestration import get_client
from prefect.exceptions import ParameterTypeError
from prefect.utilities.callables import parameter_schema
from pydantic import ValidationError

from flows.jobs.build_corpus import build_corpus
from flows.jobs.build_index import build_index
from flows.jobs.ranking import discovery, selection
from flows.pipeline.machine import Machine
from schemas.settings import CorpusSettings, IndexSettings, RunSettings
from tasks.store.store import Store
from tests.flows.conftest import ended_tasks

FLOWS = (build_corpus, build_index, discovery, selection)


@pytest.mark.usefixtures("prefect_server")
def test_the_flows_find_what_the_command_line_built_and_leave_their_artifacts(built, tmp_path, monkeypatch):
    monkeypatch.setenv("ARENA_SITE_URL", "http://arena.example")
    shutil.copytree(built / "store", tmp_path / "store")
    machine = Machine(root=tmp_path / "store", releases=built / "releases", workers=1)
    runs = RunSettings(baselines=("title",), retrievers=("bm25",))
    name = "2026-01-06"

    corpus = build_corpus(name, settings=CorpusSettings(buckets=2), machine=machine, return_state=True)
    build_index(name, IndexSettings(dense_fields=()), machine=machine)
    ranked = discovery(name, runs, machine=machine)
    assert selection(name, runs, machine=machine) == ranked
    report = ranked["report"]

    assert "title.bm25.abstract" in (Store(machine.root).folder(report) / "report.md").read_text()
    with get_client(sync_client=True) as client:
        states = {run.state_name for run in ended_tasks(corpus.state_details.flow_run_id).values()}
        left = client.read_artifacts()
    assert states == {"Cached", "Completed"}  # the command line had built all but the report
    expected = {f"plan-{name}", f"counts-{name}", f"report-{name}"}
    expected |= {f"discovery-graded-{name}", f"selection-influential-{name}"}
    assert expected <= {artifact.key for artifact in left}
    pages = [str(artifact.data) for artifact in left if artifact.key == f"edition-{name}"]
    (page,) = (page for page in pages if "selection on edition" in page)
    order = [
        "http://arena.example/reports/2026-01-06/",
        "read, kept and dropped",
        "graded labels",
        "influential labels",
    ]
    assert sorted(order, key=page.index) == order, "the report first, then counts and scores"
    lineages = [artifact.data for artifact in left if artifact.key == f"lineage-{name}"]
    assert all("release 2026-01-06 papers" in lineage for lineage in lineages)
    assert sum(artifact.key == f"report-{name}" for artifact in left) == 3, "build-corpus, discovery and selection"


@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow.name)
def test_every_parameter_of_a_form_is_described(flow):
    schema = parameter_schema(flow.fn)

    for name, field in schema.properties.items():
        assert field.get("description"), name
    for model in schema.definitions.values():
        for name, field in model["properties"].items():
            assert field.get("description"), name


def test_a_form_offers_choices_and_bounds():
    schema = parameter_schema(build_corpus.fn)

    assert schema.definitions["CorpusSettings"]["properties"]["corpus"]["enum"] == ["full_text", "abstract"]
    assert schema.definitions["CorpusSettings"]["properties"]["buckets"]["anyOf"][0]["maximum"] == 4096
    assert "papers" in schema.definitions["StageControl"]["properties"]["force"]["items"]["enum"]


def test_a_value_out_of_range_is_refused_before_a_run():
    with pytest.raises((ParameterTypeError, ValidationError), match="less than or equal to 4096"):
        build_corpus.validate_parameters({"settings": {"buckets": 5000}})
