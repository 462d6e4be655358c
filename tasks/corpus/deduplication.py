"""Merges sorted runs into records without duplicates: of several records of the same thing, the last one stays."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from schemas.manifest import Counts
from schemas.tables.quarantine import QUARANTINE
from tasks.corpus.external_sort import merge_runs
from tasks.corpus.record_formats import Format
from tasks.corpus.record_parsing import POSITION_COLUMNS
from tasks.store.parquet import TableWriter


class RecordRuns(NamedTuple):
    """Sorted runs of records, each with the place of its file, and the quarantine's name of each file by place."""

    runs: list[tuple[int, Path]]
    names: list[str]

    @property
    def size(self) -> int:
        """Bytes of all runs."""
        return sum(path.stat().st_size for _, path in self.runs)


def merge_records(
    runs: RecordRuns, form: Format, bucket: int, quarantine: TableWriter, counts: Counts
) -> Iterator[pa.Table]:
    """Yields the records of one bucket as `form.tabulate` makes them, in the order of the bucket's file.

    Args:
        runs: All runs of the stage.
        form: Format of the records.
        bucket: Which bucket.
        quarantine: Takes the duplicates.
        counts: Counts the duplicates.
    """
    for window in merge_runs(runs.runs, form.key, bucket):
        kept, duplicates = _find_duplicates(window, form)
        if len(duplicates):
            quarantine.write(_describe(window.take(duplicates), form.key, runs.names))
            counts.add(Counts(dropped={"duplicate": len(duplicates)}))
        yield window.drop_columns(["place", *POSITION_COLUMNS]).take(kept)


def drop_incomplete(rows: pa.Table, form: Format, counts: Counts) -> pa.Table:
    """Returns the rows that have the format's required column, and counts the others."""
    if lacking := rows[form.required].null_count:
        counts.add(Counts(dropped={f"no_{form.required}": lacking}))
        return rows.filter(rows[form.required].is_valid())
    return rows


def _find_duplicates(window: pa.Table, form: Format) -> tuple[np.ndarray, np.ndarray]:
    """Returns the indices of the rows to keep, in file order, and of the earlier records of the same things."""
    identity, arrangement = form.identify(window), form.arrange(window)
    order = np.lexsort(identity[::-1])
    changes = [column[order[1:]] != column[order[:-1]] for column in identity]
    is_last = np.append(np.any(changes, axis=0), True)
    kept = order[is_last]
    return kept[np.lexsort([column[kept] for column in arrangement[::-1]])], order[~is_last]


def _describe(rows: pa.Table, key: str, names: list[str]) -> pa.Table:
    """Returns quarantine rows; the excerpt is the record's key, because the line itself is not kept."""
    columns = [
        pa.array([names[place] for place in rows["place"].to_pylist()], pa.string()),
        *(rows[name] for name in POSITION_COLUMNS),
        pa.array(["duplicate"] * rows.num_rows, pa.string()),
        pa.array([f"{key}: {value}" for value in rows[key].to_pylist()], pa.string()),
    ]
    return pa.Table.from_arrays(columns, QUARANTINE.arrow.names)
