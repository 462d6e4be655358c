"""A tiny stage and stores for the store's own tests."""

from collections.abc import Generator, Mapping
from concurrent.futures import BrokenExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from schemas.settings import Settings
from schemas.tables.qrels import QRELS
from tasks.store.parquet import write_table
from tasks.store.shard import Shard
from tasks.store.shard_runner import Job
from tasks.store.stage import Stage, stage
from tasks.store.store import Request, Store
from tasks.store.workspace import Workspace


class Squares(Settings):
    """Writes `shards` files; `flavour` only changes the key; `fail_at` raises in that shard."""

    shards: int = 3
    flavour: str = "plain"
    fail_at: int = -1


class Elsewhere:
    """A runner that takes jobs from the end, loses the process of job `lost`, and `forgets` to carry one out."""

    remote = True

    def __init__(self, lost: str | None = None, forgets: str | None = None) -> None:
        self.lost, self.forgets = lost, forgets
        self.carried_out: list[str] = []

    def run(self, jobs: Mapping[str, Job], processes: int, **options: object) -> Generator[str | None]:
        for name in reversed(list(jobs)):
            if name == self.lost:
                raise BrokenExecutor("gone")
            if name != self.forgets:
                jobs[name]()
                self.carried_out.append(name)
            yield name


def write_square(shard: Shard, number: int) -> None:
    rows = pa.table({"topic_id": [number], "corpus_id": [number * number], "relevance": [1]})
    shard.counts.kept += write_table(shard.file(f"part-{number:05d}.parquet"), QRELS, rows)


def _squares(work: Workspace[Squares]) -> None:
    for shard in work.pending([f"{n:05d}" for n in range(work.settings.shards)]):
        with shard:
            if int(shard.name) == work.settings.fail_at:
                raise ZeroDivisionError("injected")
            write_square(shard, int(shard.name))


squares: Stage[Squares] = stage("topics", version=1, settings=Squares)(_squares)


def request_for(**settings: object) -> Request:
    return Request(squares, Squares.model_validate(settings), {})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "root")
