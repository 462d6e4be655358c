"""Lines of a release's files on their way to tables: rows for the external sort, unusable lines for the quarantine."""

import gc
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa

from schemas.errors import BadInput, ReleaseError
from schemas.manifest import Counts
from schemas.release import SourceFile
from schemas.tables.quarantine import QUARANTINE
from tasks.corpus.external_sort import RunWriter
from tasks.corpus.record_formats import Format
from tasks.release.decode import Record, Row
from tasks.release.lines import Line, parse_line
from tasks.store.parquet import TableWriter

PLACE_COLUMNS = ("line", "byte_offset")
"""Where a record stands in its file; goes with it as far as the merge."""

BATCH_BYTES = 1024 * 1024
"""Bytes of lines whose rows are held as Python objects before they become Arrow columns: what a cache holds."""

LINE_COST = 200
"""What a line counts for beside its bytes, so that many short lines do not make a batch large."""


@contextmanager
def without_collection() -> Generator[None]:
    """Decoded records hold no cycles: the collector would walk them over and over and find nothing."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Rejects:
    """Unusable lines of one file on their way to the quarantine, counted by reason."""

    def __init__(self, name: str, writer: TableWriter) -> None:
        self._name = name
        self._writer = writer
        self._rows: list[tuple[str, int, int, str, str]] = []
        self.dropped: Counter[str] = Counter()

    def add(self, line: Line, error: BadInput) -> None:
        """Puts a line aside; the error's message is the reason."""
        self._rows.append((self._name, line.number, line.offset, str(error), line.excerpt))
        self.dropped[str(error)] += 1

    def flush(self) -> None:
        """Hands over what is held."""
        if self._rows:
            columns = zip(*self._rows, strict=True)
            self._writer.write(pa.table(dict(zip(QUARANTINE.arrow.names, columns, strict=True))))
            self._rows.clear()


class Batch:
    """Lines on their way to Arrow columns: rows for the runs, unusable lines for the quarantine.

    Args:
        form: What the lines hold.
        runs: Takes the rows.
        rejects: Takes the unusable lines.
        unusable: Called with each object that is no record of this dataset.
    """

    def __init__(
        self,
        form: Format,
        runs: RunWriter,
        rejects: Rejects,
        unusable: Callable[[Record], None] = lambda record: None,
    ) -> None:
        self._form = form
        self._runs = runs
        self._rejects = rejects
        self._unusable = unusable
        self._rows: list[Row] = []
        self._places: list[tuple[int, int]] = []
        self._notes: Counter[str] = Counter()
        self._bytes = 0
        self._used = 0

    def add(self, line: Line) -> None:
        """Decodes a line, or puts it aside with the reason."""
        try:
            self._rows.append(self._decode(parse_line(line)))
            self._places.append((line.number, line.offset))
        except BadInput as error:
            self._rejects.add(line, error)
        self._bytes += len(line.data) + LINE_COST
        if self._bytes >= BATCH_BYTES:
            self.flush()

    def _decode(self, record: Record) -> Row:
        try:
            return self._form.decode(record, self._notes)
        except BadInput:
            self._unusable(record)
            raise

    def flush(self) -> None:
        """Hands over what is held."""
        if self._rows:
            rows = self._form.tabulate(self._rows)
            for name, column in zip(PLACE_COLUMNS, zip(*self._places, strict=True), strict=True):
                rows = rows.append_column(name, pa.array(column, pa.int64()))
            self._runs.write(rows)
        self._rejects.flush()
        self._used += len(self._rows)
        self._rows.clear()
        self._places.clear()
        self._bytes = 0

    @property
    def counts(self) -> Counts:
        """What became of the lines that were handed over."""
        dropped = dict(self._rejects.dropped)
        return Counts(read=self._used + sum(dropped.values()), dropped=dropped, notes=dict(self._notes))


def check_unchanged(path: Path, source: SourceFile) -> None:
    """Raises ReleaseError when a file has another size than it had when the build began."""
    if (size := path.stat().st_size) != source.size:
        raise ReleaseError(f"{path}: has {size} bytes, had {source.size} when the build began; run it again")


def check_usable(path: Path, counts: Counts) -> None:
    """Raises ReleaseError when a file held no line, or none that can be used."""
    if not counts.read:
        raise ReleaseError(f"{path}: holds no line; fetch the file again")
    if counts.read == sum(counts.dropped.values()):
        raise ReleaseError(
            f"{path}: none of its {counts.read} lines can be used ({_list_reasons(counts)}): neither gzip nor JSON "
            "lines of this dataset; fetch the file again"
        )


def _list_reasons(counts: Counts) -> str:
    return ", ".join(f"{reason}: {number}" for reason, number in sorted(counts.dropped.items()))


def resolve(window: pa.Table, form: Format) -> tuple[np.ndarray, np.ndarray]:
    """Indices of the rows that stand, in the order of the file, and of the earlier records of the same things."""
    identity, arrangement = form.identify(window), form.arrange(window)
    order = np.lexsort(identity[::-1])
    changes = [column[order[1:]] != column[order[:-1]] for column in identity]
    last = np.append(np.any(changes, axis=0), True)
    standing = order[last]
    return standing[np.lexsort([column[standing] for column in arrangement[::-1]])], order[~last]


def describe_duplicates(rows: pa.Table, key: str, names: list[str]) -> pa.Table:
    """Quarantine rows; the excerpt is the record's key, since the line itself is not kept."""
    excerpts = [f"{key}: {value}" for value in rows[key].to_pylist()]
    columns = [
        pa.array([names[place] for place in rows["place"].to_pylist()], pa.string()),
        *(rows[name] for name in PLACE_COLUMNS),
        pa.array(["duplicate"] * rows.num_rows, pa.string()),
        pa.array(excerpts, pa.string()),
    ]
    return pa.Table.from_arrays(columns, QUARANTINE.arrow.names)
