"""Fixtures that every room's tests share."""

import atexit
import json
import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from pydantic import SecretStr
from xdist.remote import Producer
from xdist.scheduler.loadfile import LoadFileScheduling

import flows  # noqa: F401  # pyright: ignore[reportUnusedImport]  it says how threads wait for each other
from schemas.llm_settings import LlmAccess, LlmSettings
from tasks.demo.standin.server import StandIn, StandInSettings
from tasks.llm.asker import open_door
from tasks.llm.blocking import BlockingDoor
from tasks.store.store import Store
from tests.llm.scripted_server import ScriptedServer

REPOSITORY = Path(__file__).resolve().parents[1]

# A busy machine is no defect: what must be fast is measured in tests/bench.
settings.register_profile("arena", deadline=None)
settings.load_profile("arena")


class _ByFile(LoadFileScheduling):
    """Gives a process whole files, and all that need Prefect's server to the same one: it takes long to start."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return "prefect" if _needs_prefect(self.config.rootpath / file) else file


@cache
def _needs_prefect(file: Path) -> bool:
    return "prefect_server" in file.read_text(encoding="utf-8")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Counts what needs Prefect's server among the long tests."""
    for item in items:
        if "prefect_server" in getattr(item, "fixturenames", ()) and not item.get_closest_marker("e2e"):
            item.add_marker(pytest.mark.long)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling:
    """Shares test files out."""
    return _ByFile(config, log)


def pytest_xdist_auto_num_workers() -> int:
    """Starts a process more than there are cores: tests wait for servers and processes a third of their time."""
    return len(os.sched_getaffinity(0)) + 1


def _shared_folder() -> Path:
    return Path(os.environ.get("ARENA_SHARED", REPOSITORY.parent / "shared"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of third-party material for development (real papers, reference cases); never part of the project."""
    path = _shared_folder()
    if not path.is_dir():
        pytest.skip(f"no third-party material at {path} (set ARENA_SHARED to its folder)")
    return path


@pytest.fixture(scope="session")
def reference_cases() -> Callable[[str], list[dict[str, Any]]]:
    """Reads cases answered by other tools, by kind: the project's own, and those of the third-party folder if any."""
    folders = [REPOSITORY / "tests" / "reference", _shared_folder() / "oracle"]

    def read(kind: str) -> list[dict[str, Any]]:
        files = [folder / f"{kind}.jsonl" for folder in folders if folder.is_dir()]
        return [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]

    return read


@pytest.fixture(scope="session")
def stand_in() -> Iterator[LlmAccess]:
    """A language model that answers by rule, over HTTP on this machine; replies are remembered nowhere."""
    with StandIn(StandInSettings()) as server:
        yield LlmAccess(LlmSettings(base_url=server.url, provider="stand-in", model="stand-in"), SecretStr("any"))


@pytest.fixture(scope="session")
def stand_in_door(stand_in: LlmAccess) -> Iterator[BlockingDoor]:
    """The door to it."""
    with open_door(stand_in, stand_in.settings.model_name) as door:
        yield door


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store."""
    return Store(tmp_path / "root")


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """An HTTP server that answers what a test tells it to."""
    server = ScriptedServer()
    yield server
    server.close()


def _silence() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


# After the summary, while the interpreter ends, DuckDB lists objects that outlive it; the summary stays the last line.
atexit.register(_silence)
