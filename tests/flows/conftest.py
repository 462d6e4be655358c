"""Small stages that record when they execute, a built store, and a Prefect server for the tests of flows."""

import gzip
import json
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# Before anything imports prefect: use no server, settings or database of this machine's user.
os.environ.pop("PREFECT_API_URL", None)
os.environ["PREFECT_HOME"] = tempfile.mkdtemp(prefix="prefect-home-")
os.environ["PREFECT_SERVER_ANALYTICS_ENABLED"] = "false"

from rich.logging import RichHandler

from flows import cli
from flows.pipeline.machine import Machine
from flows.pipeline.plans.steps import Step
from flows.pipeline.release_files import open_files
from flows.pipeline.walk import Executor, Pipeline, build_labelled
from flows.server.local_server import send_events_and_logs
from schemas.settings import CorpusSettings, IndexSettings, Resources, Settings
from tasks.demo.release import SyntheticSettings, write_release
from tasks.store.stage import AnyStage, stage
from tasks.store.store import Store
from tasks.store.workspace import Workspace


class Number(Settings):
    value: int = 0


class Chain:
    """Three stages in a row: `papers` writes a number, `surveys` a tenth of it, `references` a copy of that.

    Attributes:
        executed: Names of the stages whose function ran, in order.
        trouble: Errors that `surveys` raises, one per execution.
    """

    def __init__(self) -> None:
        self.executed: list[str] = []
        self.trouble: list[Exception] = []
        self._stages = self._make_stages()

    def steps(self, value: int) -> list[Step]:
        papers, surveys, references = self._stages
        return [
            Step("papers", papers, Number(value=value), {}),
            Step("surveys", surveys, Number(), {"papers": "papers"}),
            Step("references", references, Number(), {"surveys": "surveys"}),
        ]

    def _make_stages(self) -> tuple[AnyStage, AnyStage, AnyStage]:
        @stage("papers", version=1, settings=Number)
        def papers(work: Workspace[Number]) -> None:
            self._write(work, "papers", work.settings.value)

        @stage("surveys", version=1, settings=Number)
        def surveys(work: Workspace[Number]) -> None:
            if self.trouble:
                raise self.trouble.pop(0)
            self._write(work, "surveys", int(work.dataset("papers").path("number").read_text()) // 10)

        @stage("references", version=1, settings=Number)
        def references(work: Workspace[Number]) -> None:
            self._write(work, "references", int(work.dataset("surveys").path("number").read_text()))

        return papers, surveys, references

    def _write(self, work: Workspace[Number], name: str, number: int) -> None:
        self.executed.append(name)
        for shard in work.pending(["all"]):
            with shard:
                shard.counts.read = shard.counts.kept = number
                shard.file("number").write_text(str(number))


@pytest.fixture
def chain() -> Chain:
    return Chain()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a synthetic release in `releases` and its edition with BM25 in `store`; do not change it."""
    folder = tmp_path_factory.mktemp("built")
    machine = Machine(root=folder / "store", releases=folder / "releases", workers=1)
    write_release(machine.releases, SyntheticSettings(papers=300))
    store = Store(machine.root)
    pipeline = Pipeline(store, "2026-01-06", direct(store))
    pipeline.build_corpus(CorpusSettings(buckets=2), open_files(machine, None))
    pipeline.build_indexes(IndexSettings(dense_fields=()))
    return folder


HOSTILE = "[/b] [active vision] [link=file:///x]y \x1b[31m\x9b2J\u202e <img src=x> https://h/?key=1"
"""The end of a title that is markup of the terminal and of pages, and starts escape sequences."""


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like `built` whose titles all end with `HOSTILE`; do not change it."""
    folder = tmp_path_factory.mktemp("hostile")
    machine = Machine(root=folder / "store", releases=folder / "releases", workers=1)
    write_release(machine.releases, SyntheticSettings(papers=200, files=1, broken=False))
    (path,) = (machine.releases / "2026-01-06" / "papers").glob("*.gz")
    papers = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    lines = [json.dumps({**paper, "title": f"{paper['title']} {HOSTILE}"}) for paper in papers]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    store = Store(machine.root)
    pipeline = Pipeline(store, "2026-01-06", direct(store))
    pipeline.build_corpus(CorpusSettings(buckets=1), open_files(machine, None))
    pipeline.build_indexes(IndexSettings(dense_fields=()))
    return folder


def direct(store: Store) -> Executor:
    """Returns an executor that runs stages in this process, without a display."""
    return lambda request, label: build_labelled(store, request, Resources(workers=1), label, lambda progress: None).ref


@pytest.fixture
def pipeline(store: Store) -> Pipeline:
    return Pipeline(store, "e", direct(store))


@pytest.fixture(scope="session")
def prefect_server() -> Iterator[None]:
    """A Prefect API for all flow tests of the session (11 s to start)."""
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=120), send_events_and_logs():
        yield


def ended_tasks(flow_run: Any) -> dict[str, Any]:
    """Returns the tasks of a finished run by slot, once the server has recorded their final states.

    The server records them some time after the run ends, so two equal answers in a row are awaited.
    """
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

    wanted, before = FlowRunFilter(id=FlowRunFilterId(any_=[flow_run])), {}
    deadline = time.monotonic() + 60
    with get_client(sync_client=True) as client:
        while time.monotonic() < deadline:
            found = client.read_task_runs(flow_run_filter=wanted)
            states = {run.name: run.state_name for run in found}
            if states and states == before and all(run.state and run.state.is_final() for run in found):
                return {run.name: run for run in found}
            before = states
            time.sleep(0.5)
    pytest.fail(f"tasks of run {flow_run} did not end: {before}")


ONE = ("--workers", 1)


class Arena:
    """Runs commands in this process, on one folder."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys

    def __call__(self, *tokens: object) -> tuple[int, str, str]:
        """Runs a command; returns its exit code, standard output and standard error."""
        self._capsys.readouterr()
        code = cli.app.meta([str(token) for token in tokens], exit_on_error=False, print_error=False) or 0
        printed = self._capsys.readouterr()
        return code, printed.out, printed.err

    def json(self, *tokens: object) -> Any:
        code, out, err = self(*tokens, "--json")
        assert code == 0, err
        return json.loads(out)


@pytest.fixture
def arena(
    built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Arena]:
    """Runs commands on a copy of the built store."""
    shutil.copytree(built / "store", tmp_path / "store")
    monkeypatch.setenv("ARENA_ROOT", str(tmp_path / "store"))
    monkeypatch.setenv("ARENA_RELEASES", str(built / "releases"))
    yield Arena(tmp_path, capsys)
    root = logging.getLogger()
    root.setLevel(logging.WARNING)
    for handler in root.handlers[:]:  # of a command with --verbose
        if isinstance(handler, RichHandler):
            root.removeHandler(handler)
