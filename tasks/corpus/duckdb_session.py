"""DuckDB connections with a memory limit: above it, queries spill to the stage's scratch folder."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa

from tasks.store.workspace import Workspace

BATCH_ROWS = 8192
"""Rows that leave a query at a time."""

MIN_MEMORY = 0.5
"""GiB; joins need about this much that they cannot spill."""


class SessionLimits(NamedTuple):
    """Limits of one connection: memory in GiB, threads, and the folder to which it spills above the memory limit."""

    memory_gib: float
    threads: int
    spill: Path


def limits_of(work: Workspace[Any]) -> SessionLimits:
    """Returns the stage's memory and processors as limits, with at least `MIN_MEMORY`."""
    memory = max(MIN_MEMORY, work.resources.memory_gib)
    return SessionLimits(memory, max(1, work.processes), work.scratch / "spill")


@contextmanager
def open_session(limits: SessionLimits, name: str) -> Generator[duckdb.DuckDBPyConnection]:
    """Opens an in-memory database and closes it at the end.

    Args:
        limits: Memory, threads and spill folder.
        name: Subfolder of the spill folder. Connections that are open at the same time need different names.
    """
    spill = limits.spill / name
    spill.mkdir(parents=True, exist_ok=True)
    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": f"{int(limits.memory_gib * 1024)}MiB",
        "threads": limits.threads,
        "temp_directory": str(spill),
        "preserve_insertion_order": False,
        "autoinstall_known_extensions": False,
    }
    with duckdb.connect(config=settings) as connection:
        yield connection


def iter_tables(query: duckdb.DuckDBPyRelation, size: int = BATCH_ROWS) -> Iterator[pa.Table]:
    """Yields the rows of a query in its order, at most `size` at a time."""
    return (pa.Table.from_batches([batch]) for batch in query.to_arrow_reader(size))
