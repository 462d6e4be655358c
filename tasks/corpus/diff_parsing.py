"""Parses the files of diffs: keys of the records to remove, and updated rows in runs sorted by bucket and key."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from schemas.errors import BadInput
from schemas.manifest import Counts
from schemas.release import ReleaseDataset, SourceFile
from tasks.corpus.deduplication import RecordRuns
from tasks.corpus.external_sort import RunWriter
from tasks.corpus.record_formats import ANYWHERE, Format, Key
from tasks.corpus.record_parsing import (
    ParseTask,
    Rejects,
    check_usable,
    find_runs,
    new_run_file,
    parse_file,
    read_records,
)
from tasks.release.decode import Record
from tasks.release.diffs import DELETES
from tasks.release.lines import parse_line, read_lines
from tasks.store.shard import Shard
from tasks.store.workspace import Workspace

Cause = Literal["deleted", "unusable", "replaced"]
Keys = NDArray[np.int64]

NO_KEYS: Keys = np.empty((0, 2), np.int64)


class Diff(NamedTuple):
    """A parsed diff: scratch folders with the keys of records to remove, and sorted runs of the updated rows."""

    folders: list[Path]
    updates: RecordRuns

    def keys(self, cause: Cause, bucket: int, buckets: int) -> Keys:
        """Returns the keys removed for this cause that may belong to the bucket."""
        paths = [folder / f"{cause}.npy" for folder in self.folders]
        found = [np.load(path) for path in paths if path.exists()]
        mine = [keys[(keys[:, 0] == ANYWHERE) | (keys[:, 0] % buckets == bucket)] for keys in found]
        return np.concatenate([NO_KEYS, *mine])


def parse_diffs(work: Workspace[Any], diffs: Sequence[ReleaseDataset], buckets: int, line_limit: int) -> list[Diff]:
    """Parses the files of diffs into scratch files, a shard each; lines that cannot be used go to the quarantine.

    Raises:
        ReleaseError: A file has changed, is damaged, or holds no usable line.
    """
    places = count()
    by_diff = [
        [
            ParseTask(
                diff.directory / file.name,
                file,
                diff.dataset,
                next(places),
                buckets,
                f"{diff.release}/{file.name}",
                line_limit,
            )
            for file in _in_order(diff)
        ]
        for diff in diffs
    ]
    tasks = [task for files in by_diff for task in files]
    sizes = {task.shard: task.source.size for task in tasks}
    work.map_shards(_parse_file, {task.shard: task for task in tasks}, sizes=sizes)
    names = [task.name for task in tasks]
    return [
        Diff([work.scratch / task.shard for task in files], RecordRuns(find_runs(work.scratch, files), names))
        for files in by_diff
    ]


def _in_order(diff: ReleaseDataset) -> list[SourceFile]:
    """Returns the files of deletes, then those of updates, each by name."""
    return sorted(diff.files, key=lambda file: (not file.name.startswith(DELETES), file.name))


def _parse_file(shard: Shard, task: ParseTask) -> None:
    read = _read_deletes if task.source.name.startswith(DELETES) else _read_updates
    counts = parse_file(shard, task, read)
    if counts.read:
        check_usable(task.path, counts)


def _read_deletes(shard: Shard, task: ParseTask, rejects: Rejects) -> Counts:
    keys: list[Key] = []
    for line in read_lines(task.path, task.limit):
        try:
            keys.append(task.form.read_key(parse_line(line)))
        except BadInput as error:
            rejects.add(line, error)
    rejects.flush()
    _save_keys(shard, task, "deleted", keys)
    dropped = dict(rejects.dropped)
    return Counts(read=len(keys) + sum(dropped.values()), dropped=dropped, notes={"deletes": len(keys)})


def _read_updates(shard: Shard, task: ParseTask, rejects: Rejects) -> Counts:
    unusable: list[Key] = []

    def note_key(record: Record) -> None:
        with suppress(BadInput):
            unusable.append(task.form.read_key(record))

    runs = _KeyedRuns(new_run_file(shard, task), task.form, task.buckets)
    counts = read_records(task, runs, rejects, note_key)
    _save_keys(shard, task, "unusable", unusable)
    _save_keys(shard, task, "replaced", np.concatenate(runs.anywhere))
    return counts


class _KeyedRuns(RunWriter):
    """Writes runs, and collects the keys of rows that also replace records in other buckets."""

    def __init__(self, new_file: Callable[[], Path], form: Format, buckets: int) -> None:
        super().__init__(new_file, form.key, buckets)
        self._form = form
        self.anywhere: list[Keys] = [NO_KEYS]

    def write(self, rows: pa.Table) -> None:
        keys = self._form.keys(rows)
        self.anywhere.append(keys[keys[:, 0] == ANYWHERE])
        super().write(rows)


def _save_keys(shard: Shard, task: ParseTask, cause: Cause, keys: list[Key] | Keys) -> None:
    np.save(shard.scratch(f"{task.shard}/{cause}.npy"), np.asarray(keys, np.int64).reshape(-1, 2))
