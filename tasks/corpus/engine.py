"""DuckDB within limits: so much memory, then files in a folder of the stage's scratch."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa

from tasks.store.workspace import Workspace

BATCH = 8192
"""Rows that leave a query at a time."""

LEAST_MEMORY = 0.5
"""GiB."""


class Budget(NamedTuple):
    """What one connection may take: memory in GiB, threads, and the folder where it spills the rest."""

    memory_gib: float
    threads: int
    spill: Path


def budget_of(work: Workspace[Any]) -> Budget:
    """The stage's memory and processors; never less memory than a join needs and cannot spill."""
    memory = max(LEAST_MEMORY, work.resources.memory_gib)
    return Budget(memory, max(1, work.processes), work.scratch / "spill")


@contextmanager
def connect(budget: Budget, name: str) -> Generator[duckdb.DuckDBPyConnection]:
    """An in-memory database that is closed at the end.

    Args:
        budget: Its limits.
        name: Unlike that of any other connection open at a time with this budget: they must not share a spill folder.
    """
    spill = budget.spill / name
    spill.mkdir(parents=True, exist_ok=True)
    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": f"{int(budget.memory_gib * 1024)}MiB",
        "threads": budget.threads,
        "temp_directory": str(spill),
        "preserve_insertion_order": False,
        "autoinstall_known_extensions": False,
    }
    with duckdb.connect(config=settings) as connection:
        yield connection


def tables(rows: duckdb.DuckDBPyRelation, size: int = BATCH) -> Iterator[pa.Table]:
    """The rows of a query in its order, at most `size` at a time."""
    return (pa.Table.from_batches([batch]) for batch in rows.to_arrow_reader(size))
