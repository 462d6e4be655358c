"""Builds datasets from rows that a test lists, and stages on top of them."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from schemas.identifiers import StageName
from schemas.llm_settings import LlmAccess
from schemas.manifest import Ref
from schemas.settings import Resources, Settings
from schemas.table import AnyTable
from schemas.tables.surveys import SURVEYS
from tasks.store.dataset import MAIN, Dataset
from tasks.store.parquet import write_table
from tasks.store.stage import AnyStage, Stage
from tasks.store.store import Request, Store
from tasks.store.workspace import Workspace

Rows = Iterable[Mapping[str, Any]]


class Given(Settings):
    """What the rows are: so that a dataset's key follows its content."""

    content: str


class Corpus:
    """A store with datasets of given rows."""

    def __init__(self, root: Path) -> None:
        self.store = Store(root)

    def given(self, name: str, tables: Mapping[AnyTable, Rows], buckets: int = 1) -> Ref:
        """Publishes rows as the dataset of a stage; what a row leaves out is null, empty, zero or false.

        Rows go to buckets by the first column that orders the table, sorted.
        """
        filled = {table: [_fill(table, row) for row in rows] for table, rows in tables.items()}

        def write(work: Workspace[Given]) -> None:
            for shard in work.pending([f"{bucket:05d}" for bucket in range(buckets)]):
                with shard:
                    for place, (table, rows) in enumerate(filled.items()):
                        chosen = [row for row in rows if row[table.order[0]] % buckets == int(shard.name)]
                        chosen.sort(key=lambda row, by=table.order: [(row[c] is None, row[c] or 0) for c in by])
                        path = shard.file(f"{table.name if place else MAIN}-{shard.name}.parquet")
                        write_table(path, table, pa.Table.from_pylist(chosen, schema=table.arrow))

        made = Stage(StageName(name), 1, Given, write)
        settings = Given(content=repr((buckets, {table.name: rows for table, rows in filled.items()})))
        return self.store.build(Request(made, settings, {})).ref

    def accepted(self, *ids: int, rejected: Iterable[int] = ()) -> Ref:
        """A `surveys` dataset."""
        rows = [{"corpus_id": i, "title": "A survey", "accepted": i in ids} for i in (*ids, *rejected)]
        return self.given("surveys", {SURVEYS: rows})

    def build(
        self,
        stage: AnyStage,
        settings: Settings | None = None,
        workers: int = 1,
        llm: LlmAccess | None = None,
        **inputs: Ref,
    ) -> Dataset:
        """Builds a stage."""
        request = Request(stage, settings or stage.settings(), inputs)
        resources = Resources(workers=workers, memory_gib=0.5)
        return self.store.open(self.store.build(request, resources, llm=llm).ref)


def _fill(table: AnyTable, row: Mapping[str, Any]) -> dict[str, Any]:
    unknown = set(row) - set(table.arrow.names)
    assert not unknown, f"table {table.name} has no columns {unknown}"
    blank = {c.name: None if c.nullable else _blank(c.type) for c in table.arrow if c.name not in row}
    return {**blank, **row}


def _blank(kind: pa.DataType) -> Any:
    if pa.types.is_list(kind):
        return []
    if pa.types.is_fixed_size_binary(kind):
        return bytes(kind.byte_width)
    return "" if pa.types.is_string(kind) else pa.scalar(0).cast(kind).as_py()


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return Corpus(tmp_path / "root")


@pytest.fixture
def new_corpus(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Corpus]:
    """As `corpus`, one for each example of a property."""
    return lambda: Corpus(tmp_path_factory.mktemp("corpus") / "root")
