"""Parses the lines of one release file into sorted runs; lines that cannot be used go to the quarantine."""

import gc
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from schemas.errors import BadInput, ReleaseError
from schemas.identifiers import DatasetName
from schemas.manifest import Counts
from schemas.release import SourceFile
from schemas.tables.quarantine import QUARANTINE, QuarantinedLineRow
from tasks.corpus.external_sort import RunWriter
from tasks.corpus.record_formats import FORMATS, Format
from tasks.release.decode import Record, Row
from tasks.release.lines import LINE_LIMIT, Block, Line, parse_line, read_blocks
from tasks.release.typed import Columns
from tasks.store.parquet import TableWriter
from tasks.store.shard import Shard

POSITION_COLUMNS = ("line", "byte_offset")
"""Where a record is in its file; these columns stay with a row until the merge."""

BATCH_BYTES = 1024 * 1024
"""Bytes of lines that are held as Python objects before they become Arrow columns; about the size of a CPU cache."""

SMALL_BLOCK = 16 * 1024
"""Bytes of a block that is read line by line at once when a line of it is not as documented."""

Ints = Sequence[int] | NDArray[np.int64]

LINE_COST = 200
"""Bytes added to the length of each line, so that many short lines do not make a large batch."""


class ParseTask(NamedTuple):
    """One release file to parse.

    Attributes:
        path: The file.
        source: Its name, size and digest when the build began.
        dataset: The dataset the file belongs to.
        place: Number of the file among all files of the stage; of two records of the same thing, the one from the file
            with the higher number wins.
        buckets: Number of buckets.
        name: Name of the file in the quarantine.
        limit: Longest line that is read, in bytes.
    """

    path: Path
    source: SourceFile
    dataset: DatasetName
    place: int
    buckets: int
    name: str
    limit: int = LINE_LIMIT

    @property
    def shard(self) -> str:
        """Name of the shard, and of the scratch folder for its runs."""
        return f"parse-{self.place:05d}-{self.source.sha256[:12]}"

    @property
    def form(self) -> Format:
        """Format of the file's records."""
        return FORMATS[self.dataset]


def parse_file(shard: Shard, task: ParseTask, read: Callable[[Shard, ParseTask, "Rejects"], Counts]) -> Counts:
    """Reads one release file and adds its counts to the shard; rejected lines are written to a quarantine file.

    Raises:
        ReleaseError: The file has another size than it had when the build began.
    """
    if (size := task.path.stat().st_size) != task.source.size:
        raise ReleaseError(f"{task.path}: has {size} bytes, had {task.source.size} when the build began; run it again")
    quarantine = TableWriter(shard.file(f"quarantine-lines-{task.place:05d}.parquet"), QUARANTINE)
    with quarantine, _garbage_collection_off():
        counts = read(shard, task, Rejects(task.name, quarantine))
    shard.counts.add(counts)
    return counts


@contextmanager
def _garbage_collection_off() -> Generator[None]:
    """Turns the cycle collector off: decoded records hold no cycles, and it would scan them again and again."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def new_run_file(shard: Shard, task: ParseTask) -> Callable[[], Path]:
    """Returns a function that gives the path of the task's next run at each call."""
    numbers = count()
    return lambda: shard.scratch(f"{task.shard}/{next(numbers):05d}.arrow")


def find_runs(scratch: Path, tasks: Iterable[ParseTask]) -> list[tuple[int, Path]]:
    """Returns the runs that parsing has written, each with the place of its file."""
    return [(task.place, path) for task in tasks for path in sorted((scratch / task.shard).glob("*.arrow"))]


def read_records(
    task: ParseTask, runs: RunWriter, rejects: "Rejects", on_unusable: Callable[[Record], None] = lambda record: None
) -> Counts:
    """Decodes every line of a file into rows of sorted runs.

    Args:
        task: The file.
        runs: Takes the rows; is closed at the end.
        rejects: Takes the lines that cannot be used.
        on_unusable: Called with each JSON object that is not a usable record of this dataset.
    """
    batch = Batch(task, runs, rejects, on_unusable)
    for part in read_blocks(task.path, task.limit):
        if isinstance(part, Line):
            batch.add_line(part)
        else:
            batch.add_block(part)
    batch.flush()
    runs.close()
    return batch.counts


class Rejects:
    """Collects the unusable lines of one file for the quarantine and counts them by reason."""

    def __init__(self, name: str, writer: TableWriter) -> None:
        self._name = name
        self._writer = writer
        self._rows: list[QuarantinedLineRow] = []
        self.dropped: Counter[str] = Counter()

    def add(self, line: Line, error: BadInput) -> None:
        """Rejects a line; the error's message is the reason."""
        self._rows.append(QuarantinedLineRow(self._name, line.number, line.offset, str(error), line.excerpt))
        self.dropped[str(error)] += 1

    def flush(self) -> None:
        """Writes the collected lines."""
        if self._rows:
            self._writer.write(QUARANTINE.of(self._rows))
            self._rows.clear()


class Batch:
    """Writes decoded blocks as Arrow columns, and lines that were decoded one by one a batch at a time."""

    def __init__(
        self, task: ParseTask, runs: RunWriter, rejects: Rejects, on_unusable: Callable[[Record], None]
    ) -> None:
        self._form, self._limit = task.form, task.limit
        self._runs = runs
        self._rejects = rejects
        self._on_unusable = on_unusable
        self._rows: list[Row] = []
        self._positions: list[tuple[int, int]] = []
        self._notes: Counter[str] = Counter()
        self._bytes = 0
        self._used = 0

    def add_block(self, block: Block) -> None:
        """Decodes a block; when a line of it is not as documented, one half after the other, and then line by line."""
        notes: Counter[str] = Counter()
        if found := self._form.blocks.decode(block.data, self._limit, notes):
            self.flush()
            self._notes += notes
            numbers = block.number + np.arange(len(found.starts))
            self._write(found.columns, numbers, block.offset + found.starts)
        elif len(block.data) > SMALL_BLOCK and (halves := block.halves()):
            for half in halves:
                self.add_block(half)
        else:
            for line in block.lines(self._limit):
                self.add_line(line)

    def add_line(self, line: Line) -> None:
        """Decodes a line, or rejects it with the reason."""
        try:
            self._rows.append(self._decode_line(line))
            self._positions.append((line.number, line.offset))
        except BadInput as error:
            self._rejects.add(line, error)
        self._bytes += len(line.data) + LINE_COST
        if self._bytes >= BATCH_BYTES:
            self.flush()

    def _decode_line(self, line: Line) -> Row:
        if line.length > self._limit:
            raise BadInput("too_long")
        try:
            record = parse_line(line)
        except BadInput:
            # A number that no float holds, in a field that is not read, or a long line.
            if found := self._form.blocks.decode(line.data, self._limit, self._notes):
                return tuple(column[0] for column in found.columns)
            raise
        try:
            return self._form.decode(record, self._notes)
        except BadInput:
            self._on_unusable(record)
            raise

    def flush(self) -> None:
        """Writes the collected rows and rejected lines."""
        if self._rows:
            self._write(tuple(zip(*self._rows, strict=True)), *zip(*self._positions, strict=True))
        self._rejects.flush()
        self._rows.clear()
        self._positions.clear()
        self._bytes = 0

    def _write(self, columns: Columns, numbers: Ints, offsets: Ints) -> None:
        rows = self._form.tabulate(columns)
        for name, column in zip(POSITION_COLUMNS, (numbers, offsets), strict=True):
            rows = rows.append_column(name, pa.array(column, pa.int64()))
        self._runs.write(rows)
        self._used += len(rows)

    @property
    def counts(self) -> Counts:
        """Counts of the lines written so far."""
        dropped = dict(self._rejects.dropped)
        return Counts(read=self._used + sum(dropped.values()), dropped=dropped, notes=dict(self._notes))


def check_usable(path: Path, counts: Counts) -> None:
    """Raises ReleaseError when a file holds no lines, or no usable ones."""
    if not counts.read:
        raise ReleaseError(f"{path}: holds no lines; fetch the file again")
    if counts.read == sum(counts.dropped.values()):
        reasons = ", ".join(f"{reason}: {number}" for reason, number in sorted(counts.dropped.items()))
        raise ReleaseError(
            f"{path}: none of its {counts.read} lines can be used ({reasons}): neither gzip nor JSON lines of this "
            "dataset; fetch the file again"
        )
