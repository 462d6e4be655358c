"""The answers that a stage has so far: a killed stage goes on at the subject, and a healed one keeps what was good."""

import threading
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import orjson

from schemas.table import AnyTable

Row = tuple[Any, ...]
"""A row object of a declared table."""


class SubjectRows(NamedTuple):
    """What a stage writes and counts for one subject.

    Attributes:
        rows: Row objects; each goes to the table that declares its class.
        outcome: How the subject ended.
        notes: Further counts.
        settled: Whether asking the subject again gives the same; not when a call failed at the endpoint.
    """

    rows: Sequence[Row]
    outcome: str
    notes: Mapping[str, float] = {}
    settled: bool = True


class Journal:
    """A file of settled answers, one line each; several threads may write to it.

    A process that is killed loses the line that it was writing at most. A line begins with a checksum; what does not
    agree with it is asked again. Lines are not forced to disk: the replies behind the answers are in the cache of model
    calls.

    Args:
        path: The file; created when absent.
        tables: The tables of the rows.
    """

    def __init__(self, path: Path, tables: Sequence[AnyTable]) -> None:
        self._tables = tables
        self._lock = threading.Lock()
        self._known = _read(path)
        self._file = path.open("ab")
        self._file.write(b"\n")  # ends a line that a killed process began

    def find(self, place: int, name: str) -> SubjectRows | None:
        """Returns the answer of the subject at a place of the stage's list; None: there is none yet."""
        match self._known.pop(place, None):
            case [_, kept, by_table, outcome, notes] if kept == name:
                rows = [table.row(*row) for table in self._tables for row in by_table[table.name]]
                return SubjectRows(rows, outcome, notes)
            case _:
                return None

    def keep(self, place: int, name: str, answered: SubjectRows) -> None:
        """Adds an answer."""
        by_table = {table.name: rows_of(table, answered.rows) for table in self._tables}
        line = orjson.dumps((place, name, by_table, answered.outcome, answered.notes), default=tuple)
        with self._lock:
            self._file.write(_checksum(line) + line + b"\n")
            self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def rows_of(table: AnyTable, rows: Sequence[Row]) -> list[Row]:
    """Returns the rows that belong to a table, in their order."""
    return [row for row in rows if type(row) is table.row]


def _checksum(line: bytes) -> bytes:
    return b"%08x " % zlib.crc32(line)


def _read(path: Path) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for line in path.read_bytes().split(b"\n") if path.is_file() else ():
        if line[9:] and line[:9] == _checksum(line[9:]):  # else damaged, or begun by a process that was killed
            kept = orjson.loads(line[9:])
            found[kept[0]] = kept
    return found
