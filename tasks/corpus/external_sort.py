"""External merge sort by bucket and key: sorts any number of rows in bounded memory.

A run is an Arrow file whose rows ascend by (bucket, key). Its batches are small, no batch spans two buckets, and the
schema metadata say at which batch each bucket begins. A merge holds a few batches of at most `FAN_IN` runs in memory:
more runs are first merged group by group, in as many passes as it takes.
"""

import json
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

RUN_BYTES = 64 * 1024 * 1024
"""Bytes of rows that are sorted in memory and written as one run."""

BATCH_BYTES = 256 * 1024
"""Bytes of a batch; merging n runs holds at least n batches."""

WINDOW_BATCHES = 32
"""Batches read at once over all runs together, when there are few runs."""

FAN_IN = 128
"""Runs that are merged at once; 128 take about 100 MB, and two passes suffice for 16,384 runs, a terabyte of rows."""

BOUNDS = b"bounds"

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)


class RunWriter:
    """Sorts incoming rows into runs.

    Args:
        new_file: Returns the path of the next run.
        key: Integer column to sort by.
        buckets: Number of buckets; the bucket of a row is its key modulo this number.
    """

    def __init__(self, new_file: Callable[[], Path], key: str, buckets: int) -> None:
        self._new_file = new_file
        self._key = key
        self._buckets = buckets
        self._tables: list[pa.Table] = []
        self._bytes = 0

    def write(self, rows: pa.Table) -> None:
        """Adds rows; rows with equal keys keep the order in which they were added."""
        self._tables.append(rows)
        self._bytes += rows.nbytes
        if self._bytes >= RUN_BYTES:
            self.close()

    def close(self) -> None:
        """Writes the rows in memory as one run."""
        if not self._tables:
            return
        rows = pa.concat_tables(self._tables)
        self._tables, self._bytes = [], 0
        keys = rows[self._key].to_numpy()
        buckets = keys % self._buckets
        order = np.lexsort((keys, buckets))
        _write_run(self._new_file(), rows.take(order), np.searchsorted(buckets[order], np.arange(self._buckets + 1)))


def _write_run(path: Path, rows: pa.Table, starts: np.ndarray) -> None:
    slices: list[pa.RecordBatch] = []
    bounds = [0]
    for first, last in pairwise(starts):
        slices.extend(_batches(rows.slice(first, last - first)))
        bounds.append(len(slices))
    schema = rows.schema.with_metadata({BOUNDS: json.dumps(bounds)})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema, options=_OPTIONS) as writer:
        for batch in slices:
            writer.write_batch(batch)


def _batches(rows: pa.Table) -> list[pa.RecordBatch]:
    per_batch = max(1, BATCH_BYTES * rows.num_rows // max(1, rows.nbytes))
    return rows.combine_chunks().to_batches(max_chunksize=per_batch)


class _Cursor:
    """Read position in one bucket of a run, with the rows read but not yet merged, and their keys.

    A run without bounds is an earlier pass's: it holds one bucket and has the column `place`.
    """

    def __init__(self, path: Path, place: int, bucket: int) -> None:
        self._path = path
        self._place = place
        with _open_run(path) as reader:
            self._merged = BOUNDS not in (reader.schema.metadata or {})
            bounds = None if self._merged else json.loads(reader.schema.metadata[BOUNDS])
            self._next, self._stop = (bounds[bucket], bounds[bucket + 1]) if bounds else (0, reader.num_record_batches)
        self._rows: list[pa.Table] = []
        self.keys = np.empty(0, np.int64)

    @property
    def more(self) -> bool:
        return self._next < self._stop

    def read(self, key: str, batches: int) -> None:
        """Reads up to `batches` further batches."""
        stop = min(self._stop, self._next + batches)
        with _open_run(self._path) as reader:
            found = pa.Table.from_batches([reader.get_batch(number) for number in range(self._next, stop)])
        self._next = stop
        if not self._merged:
            found = found.append_column("place", pa.repeat(pa.scalar(self._place, pa.int32()), found.num_rows))
        self._rows = [pa.concat_tables([*self._rows, found.replace_schema_metadata()])]
        self.keys = self._rows[0][key].to_numpy()

    def take_below(self, bound: int | None) -> pa.Table:
        """Removes and returns the rows with a key below `bound` (all rows when None)."""
        count = len(self.keys) if bound is None else int(np.searchsorted(self.keys, bound))
        rows, self.keys = self._rows[0], self.keys[count:]
        self._rows = [rows.slice(count)]
        return rows.slice(0, count)


@contextmanager
def _open_run(path: Path) -> Generator[pa.ipc.RecordBatchFileReader]:
    """Opens a run for one read, because a merge may have more runs than a process may have open files."""
    with pa.OSFile(str(path)) as source:
        yield pa.ipc.open_file(source, options=pa.ipc.IpcReadOptions(use_threads=False))


def merge_runs(runs: Sequence[tuple[int, Path]], key: str, bucket: int) -> Iterator[pa.Table]:
    """Yields the rows of one bucket in windows: keys ascend from window to window, and no key is in two windows.

    Within a window rows are not sorted by key; only rows with equal keys are ordered, by `runs` and then as written.

    Args:
        runs: Runs, each with the number of the input it came from, which becomes the column `place`.
        key: The column by which the runs are sorted.
        bucket: Which bucket.
    """
    if len(runs) <= FAN_IN:
        yield from _merge(runs, key, bucket)
        return
    with TemporaryDirectory(prefix="merge-", dir=runs[0][1].parent.parent) as folder:
        merged = list(runs)
        for level in count():
            groups = [merged[first : first + FAN_IN] for first in range(0, len(merged), FAN_IN)]
            if len(groups) <= 1:  # none where the bucket has no row
                break
            paths = [Path(folder) / f"{level}-{number:05d}.arrow" for number in range(len(groups))]
            merged = [
                (0, path) for path, group in zip(paths, groups, strict=True) if _merge_group(group, path, key, bucket)
            ]
            for path in Path(folder).glob(f"{level - 1}-*"):
                path.unlink()
        yield from _merge(merged, key, bucket)


def _merge_group(runs: Sequence[tuple[int, Path]], path: Path, key: str, bucket: int) -> bool:
    """Writes one bucket of adjacent runs as one run; returns whether there is a row."""
    with ExitStack() as opened:
        writer = None
        for window in _merge(runs, key, bucket):
            if writer is None:
                sink = opened.enter_context(pa.OSFile(str(path), "wb"))
                writer = opened.enter_context(pa.ipc.new_file(sink, window.schema, options=_OPTIONS))
            for batch in _batches(window.take(np.argsort(window[key].to_numpy(), kind="stable"))):
                writer.write_batch(batch)
        return writer is not None


def _merge(runs: Sequence[tuple[int, Path]], key: str, bucket: int) -> Iterator[pa.Table]:
    """Yields the windows of `merge_runs`, of as many runs as fit in memory together."""
    cursors = [cursor for place, path in runs if (cursor := _Cursor(path, place, bucket)).more]
    batches = max(1, WINDOW_BATCHES // max(1, len(cursors)))
    for cursor in cursors:
        cursor.read(key, batches)
    while cursors:
        bound = min((int(cursor.keys[-1]) for cursor in cursors if cursor.more), default=None)
        window = pa.concat_tables([cursor.take_below(bound) for cursor in cursors])
        if window.num_rows:
            yield window
        for cursor in cursors:
            if cursor.more and cursor.keys[-1] == bound:
                cursor.read(key, batches)
        cursors = [cursor for cursor in cursors if len(cursor.keys)]
