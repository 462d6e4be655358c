"""Reads the files of diffs bucket by bucket: keys to delete, and updated rows sorted by bucket and key."""

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
from schemas.tables.quarantine import QUARANTINE
from tasks.corpus.external_sort import RunWriter
from tasks.corpus.record_formats import ANYWHERE, FORMATS, Format, Key
from tasks.corpus.record_parsing import Batch, Rejects, check_unchanged, check_usable, without_collection
from tasks.release.decode import Record
from tasks.release.diffs import DELETES
from tasks.release.lines import parse_line, read_lines
from tasks.store.parquet import TableWriter
from tasks.store.shard import Shard
from tasks.store.workspace import Workspace

Cause = Literal["deleted", "unusable", "replaced"]
Keys = NDArray[np.int64]

NO_KEYS: Keys = np.empty((0, 2), np.int64)


class Diff(NamedTuple):
    """What one diff says, once its files are read: folders of the keys that go, and runs of the updates' rows."""

    folders: list[Path]
    runs: list[tuple[int, Path]]

    def keys(self, cause: Cause, bucket: int, buckets: int) -> Keys:
        """The keys that may be of a bucket."""
        paths = [folder / f"{cause}.npy" for folder in self.folders]
        found = [np.load(path) for path in paths if path.exists()]
        mine = [keys[(keys[:, 0] == ANYWHERE) | (keys[:, 0] % buckets == bucket)] for keys in found]
        return np.concatenate([NO_KEYS, *mine])


class Diffs(NamedTuple):
    """Diffs in the order in which they apply, and how their files, by number, are called in the quarantine."""

    diffs: list[Diff]
    names: list[str]


class _ParseTask(NamedTuple):
    """One file of a diff; `place` is its number among all files, in the order in which they apply."""

    diff: ReleaseDataset
    source: SourceFile
    place: int
    buckets: int

    @property
    def shard(self) -> str:
        """Name of the shard, and of the scratch folder that holds what the file says."""
        return f"parse-{self.place:05d}-{self.source.sha256[:12]}"

    @property
    def name(self) -> str:
        """How the file is called in the quarantine."""
        return f"{self.diff.release}/{self.source.name}"


def read_diffs(work: Workspace[Any], diffs: Sequence[ReleaseDataset], buckets: int) -> Diffs:
    """Reads the files of diffs, a shard each, into scratch files; lines that cannot be used go to the quarantine.

    Raises:
        ReleaseError: A file has changed, is damaged, or holds no usable line.
    """
    numbers = count()
    tasks = [[_ParseTask(diff, file, next(numbers), buckets) for file in _in_order(diff)] for diff in diffs]
    every = [task for files in tasks for task in files]
    work.map_shards(_parse_file, {task.shard: task for task in every})
    return Diffs([_parsed(work.scratch, files) for files in tasks], [task.name for task in every])


def _in_order(diff: ReleaseDataset) -> list[SourceFile]:
    """Deletes before updates, each by name."""
    return sorted(diff.files, key=lambda file: (not file.name.startswith(DELETES), file.name))


def _parsed(scratch: Path, files: list[_ParseTask]) -> Diff:
    folders = [scratch / task.shard for task in files]
    runs = [
        (task.place, path)
        for task, folder in zip(files, folders, strict=True)
        for path in sorted(folder.glob("*.arrow"))
    ]
    return Diff(folders, runs)


def _parse_file(shard: Shard, task: _ParseTask) -> None:
    """Reads one file of a diff into runs and keys, and its unusable lines into a quarantine file."""
    path = task.diff.directory / task.source.name
    check_unchanged(path, task.source)
    form = FORMATS[task.diff.dataset]
    quarantine = TableWriter(shard.file(f"quarantine-lines-{task.place:05d}.parquet"), QUARANTINE)
    with quarantine, without_collection():
        rejects = Rejects(task.name, quarantine)
        read = _read_deletes if task.source.name.startswith(DELETES) else _read_updates
        counts = read(shard, task, form, rejects)
    if counts.read:
        check_usable(path, counts)
    shard.counts.add(counts)


def _read_deletes(shard: Shard, task: _ParseTask, form: Format, rejects: Rejects) -> Counts:
    keys: list[Key] = []
    for line in read_lines(task.diff.directory / task.source.name):
        try:
            keys.append(form.read_key(parse_line(line)))
        except BadInput as error:
            rejects.add(line, error)
    rejects.flush()
    _save_keys(shard, task, "deleted", keys)
    dropped = dict(rejects.dropped)
    return Counts(read=len(keys) + sum(dropped.values()), dropped=dropped, notes={"deletes": len(keys)})


def _read_updates(shard: Shard, task: _ParseTask, form: Format, rejects: Rejects) -> Counts:
    unusable: list[Key] = []

    def note_key(record: Record) -> None:
        with suppress(BadInput):
            unusable.append(form.read_key(record))

    numbers = count()
    runs = _KeyedRuns(lambda: shard.scratch(f"{task.shard}/{next(numbers):05d}.arrow"), form, task.buckets)
    batch = Batch(form, runs, rejects, note_key)
    for line in read_lines(task.diff.directory / task.source.name):
        batch.add(line)
    batch.flush()
    runs.close()
    _save_keys(shard, task, "unusable", unusable)
    _save_keys(shard, task, "replaced", np.concatenate(runs.anywhere))
    return batch.counts


class _KeyedRuns(RunWriter):
    """Runs, and the keys of those rows that replace records in other buckets too."""

    def __init__(self, new_file: Callable[[], Path], form: Format, buckets: int) -> None:
        super().__init__(new_file, form.key, buckets)
        self._form = form
        self.anywhere: list[Keys] = [NO_KEYS]

    def write(self, rows: pa.Table) -> None:
        keys = self._form.keys(rows)
        self.anywhere.append(keys[keys[:, 0] == ANYWHERE])
        super().write(rows)


def _save_keys(shard: Shard, task: _ParseTask, cause: Cause, keys: list[Key] | Keys) -> None:
    np.save(shard.scratch(f"{task.shard}/{cause}.npy"), np.asarray(keys, np.int64).reshape(-1, 2))
