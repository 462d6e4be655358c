"""Records of a release made of an earlier release's records and the diffs between them.

What belongs here: reading diffs and applying them to buckets. What does not: finding diffs (`tasks/release/diffs`), a
release read whole (`records`), which dataset has which keys (`record_formats`).

The result is, byte for byte, what reading the new release whole gives; the rules are those of
infra/decisions/0008-a-week-is-made-of-diffs-and-buckets.md. Only buckets that a diff touches are rewritten, a few
thousand rows in memory at a time; the others are taken over as they are. In memory are a bucket's keys and its changes,
and of citations the ids of all that the diffs name.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from schemas.errors import BadInput, ReleaseError
from schemas.identifiers import DatasetName
from schemas.manifest import Counts, FileEntry, ReleaseEntry
from schemas.release import ReleaseDataset, SourceFile
from schemas.tables.quarantine import QUARANTINE
from tasks.corpus.record_formats import ANYWHERE, FORMATS, Format, Integers, Key
from tasks.corpus.record_lines import (
    PLACE_COLUMNS,
    Batch,
    Rejects,
    check_usable,
    describe_duplicates,
    resolve,
    without_collection,
)
from tasks.corpus.spills import RunWriter, merge_runs
from tasks.release.decode import Record
from tasks.release.diffs import DELETES
from tasks.release.lines import parse_line, read_lines
from tasks.store.dataset import MAIN, Dataset
from tasks.store.parquet import TableWriter
from tasks.store.shard import Shard
from tasks.store.workspace import Workspace

Cause = Literal["deleted", "unusable", "replaced"]
Keys = NDArray[np.int64]
Mask = NDArray[np.bool_]

NO_KEYS: Keys = np.empty((0, 2), np.int64)


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


class _Diff(NamedTuple):
    """What one diff says, once its files are parsed: folders of their keys, and runs of the updates' rows."""

    folders: list[Path]
    runs: list[tuple[int, Path]]

    def keys(self, cause: Cause, task: "_ApplyTask") -> Keys:
        """The keys that may be of a bucket."""
        paths = [folder / f"{cause}.npy" for folder in self.folders]
        found = [np.load(path) for path in paths if path.exists()]
        mine = [keys[(keys[:, 0] == ANYWHERE) | (keys[:, 0] % task.buckets == task.bucket)] for keys in found]
        return np.concatenate([NO_KEYS, *mine])


class _ApplyTask(NamedTuple):
    """One bucket: its files in the earlier dataset, and all diffs in order."""

    bucket: int
    buckets: int
    folder: Path
    files: tuple[FileEntry, ...]
    diffs: list[_Diff]
    names: list[str]
    dataset: DatasetName


def apply_diffs(work: Workspace[Any], buckets: int) -> None:
    """Builds a record stage from the inputs `earlier` and `diff-<n>`, the latter in the order of their names.

    Counts: `read` are the diffs' lines, `kept` is the rows of the new dataset. Notes: `deletes` and `updates` are
    usable lines, repeated updates once; `deleted`, `replaced` and `unusable` are rows that went because of a delete, an
    update, an update that cannot be used; `inserted` are updates of what was not there, of which `restored` are those
    of what these diffs had deleted; `deletes_unknown` are deletes of what was not there.

    Raises:
        BadInput: The earlier dataset has another number of buckets, or was made of another kind of files.
        ReleaseError: A file of a diff has changed, is damaged, or holds no usable line.
    """
    earlier = work.dataset("earlier")
    diffs = [work.release(name) for name in sorted(work.inputs) if name != "earlier"]
    _require_alike(work.stage, earlier, buckets, diffs)
    numbers = count()
    tasks = [[_ParseTask(diff, file, next(numbers), buckets) for file in _in_order(diff)] for diff in diffs]
    every = [task for files in tasks for task in files]
    work.map_shards(_parse_file, {task.shard: task for task in every})
    parsed = [_parsed(work.scratch, files) for files in tasks]
    names, dataset = [task.name for task in every], diffs[0].dataset
    apply = [
        _ApplyTask(bucket, buckets, earlier.folder, _files_of(earlier, bucket), parsed, names, dataset)
        for bucket in range(buckets)
    ]
    work.map_shards(_apply_to_bucket, {f"bucket-{task.bucket:05d}": task for task in apply})
    for shard in work.pending(["balance"]):
        with shard:
            seen = work.counts().notes
            shard.counts.notes = {
                "inserted": seen.get("updates", 0) - seen.get("replaced", 0),
                "deletes_unknown": seen.get("deletes", 0) - seen.get("deleted", 0),
            }


def _require_alike(stage: str, earlier: Dataset, buckets: int, diffs: list[ReleaseDataset]) -> None:
    manifest = earlier.manifest
    if manifest.stage != stage or manifest.parameters["buckets"] != buckets:
        raise BadInput(
            f"stage {stage}: the earlier dataset is {manifest.stage} in {manifest.parameters.get('buckets')} buckets, "
            f"asked for are {buckets}; build with the same number of buckets"
        )
    given = {entry.dataset for entry in manifest.inputs.values() if isinstance(entry, ReleaseEntry)}
    if len(given | {diff.dataset for diff in diffs}) != 1:
        raise BadInput(
            f"stage {stage}: the earlier dataset was made of {', '.join(sorted(given))}, the diffs are of "
            f"{', '.join(sorted({diff.dataset for diff in diffs}))}; build the new release whole"
        )


def _in_order(diff: ReleaseDataset) -> list[SourceFile]:
    """Deletes before updates, each by name."""
    return sorted(diff.files, key=lambda file: (not file.name.startswith(DELETES), file.name))


def _parsed(scratch: Path, files: list[_ParseTask]) -> _Diff:
    folders = [scratch / task.shard for task in files]
    runs = [
        (task.place, path)
        for task, folder in zip(files, folders, strict=True)
        for path in sorted(folder.glob("*.arrow"))
    ]
    return _Diff(folders, runs)


def _files_of(dataset: Dataset, bucket: int) -> tuple[FileEntry, ...]:
    """Files of one bucket, the main table's first; what was put aside when they were made is not among them."""
    tables = FORMATS["s2orc"].tables
    prefixes = [MAIN, *(table.name for table in tables[1:])]
    names = [f"{prefix}-{bucket:05d}.parquet" for prefix in prefixes]
    found = {file.path: file for file in dataset.manifest.files}
    return tuple(found[name] for name in names if name in found)


def _parse_file(shard: Shard, task: _ParseTask) -> None:
    """Reads one file of a diff into runs and keys, and its unusable lines into a quarantine file."""
    path = task.diff.directory / task.source.name
    if (size := path.stat().st_size) != task.source.size:
        raise ReleaseError(f"{path}: has {size} bytes, had {task.source.size} when the build began; run it again")
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


class _Event(NamedTuple):
    """Keys whose records go, and why."""

    cause: Cause
    keys: Keys


class _Changes(NamedTuple):
    """What the diffs do to one bucket: which of its earlier rows stay, and new rows as `Format.part` takes them."""

    alive: Mask
    rows: pa.Table


def _apply_to_bucket(shard: Shard, task: _ApplyTask) -> None:
    """Writes the files of one bucket, or takes over the earlier ones when the diffs say nothing of it."""
    form, main = FORMATS[task.dataset], task.files[0]
    earlier = pq.read_table(task.folder / main.path, columns=list(form.key_columns))
    changes = _find_changes(shard, task, form, form.keys(earlier))
    if changes.alive.all() and not changes.rows.num_rows:
        for file in task.files:
            shard.take(task.folder, file)
        shard.counts.kept = main.rows or 0
        return
    gone = earlier[form.key].to_numpy()[~changes.alive]
    new_main, *new_sides = form.part(changes.rows)
    staying = _staying(task.folder / main.path, changes.alive, form.row_group)
    with TableWriter(shard.file(main.path), form.tables[0], row_group=form.row_group, level=form.level) as writer:
        for window in _merged(staying, form.tables[0].conform(new_main), form.key, form.arrange):
            writer.write(window)
    shard.counts.kept = writer.rows
    for file, table, rows in zip(task.files[1:], form.tables[1:], new_sides, strict=True):
        others = _not_of(task.folder / file.path, form.key, gone)
        with TableWriter(shard.file(file.path), table) as side:
            for window in _merged(others, table.conform(rows), form.key, lambda rows: (rows[form.key].to_numpy(),)):
                side.write(window)


def _find_changes(shard: Shard, task: _ApplyTask, form: Format, earlier: Keys) -> _Changes:
    """Applies the diffs to the bucket's keys; repeated records of one diff go to the quarantine."""
    events: list[_Event] = []
    arrived: list[tuple[int, pa.Table]] = []
    with TableWriter(shard.file(f"quarantine-duplicates-{task.bucket:05d}.parquet"), QUARANTINE) as quarantine:
        for diff in task.diffs:
            events += [_Event("deleted", diff.keys("deleted", task)), _Event("unusable", diff.keys("unusable", task))]
            rows = pa.concat_tables([form.empty(), *_updates(shard, task, diff, quarantine)])
            keys = form.keys(rows)
            deleted = np.concatenate([event.keys for event in events if event.cause == "deleted"])
            restored = int(_are_among(keys, deleted).sum())
            shard.counts.add(Counts(notes={"updates": len(keys), "restored": restored}))
            events.append(_Event("replaced", np.concatenate([keys, diff.keys("replaced", task)])))
            arrived.append((len(events), rows))
    alive = _strike(earlier, events, shard.counts)
    latest = [rows.filter(_strike(form.keys(rows), events[after:], shard.counts)) for after, rows in arrived]
    rows = pa.concat_tables(latest)
    usable = rows.filter(rows[form.required].is_valid())
    if lacking := rows.num_rows - usable.num_rows:
        shard.counts.add(Counts(dropped={f"no_{form.required}": lacking}))
    return _Changes(alive, usable)


def _updates(shard: Shard, task: _ApplyTask, diff: _Diff, quarantine: TableWriter) -> Iterator[pa.Table]:
    """The rows of one diff's updates, of repeated ones the last."""
    form = FORMATS[task.dataset]
    for window in merge_runs(diff.runs, form.key, task.bucket):
        standing, repeated = resolve(window, form)
        if len(repeated):
            quarantine.write(describe_duplicates(window.take(repeated), form.key, task.names))
            shard.counts.add(Counts(dropped={"duplicate": len(repeated)}))
        yield window.drop_columns(["place", *PLACE_COLUMNS]).take(standing).cast(form.empty().schema)


def _strike(keys: Keys, events: Sequence[_Event], counts: Counts) -> Mask:
    """Which rows outlive the events; the others are counted by the first that hits them."""
    alive = np.ones(len(keys), dtype=bool)
    for event in events:
        hit = alive & _are_among(keys, event.keys)
        counts.add(Counts(notes={event.cause: int(hit.sum())}))
        alive &= ~hit
    return alive


def _are_among(keys: Keys, wanted: Keys) -> Mask:
    if not len(keys) or not len(wanted):
        return np.zeros(len(keys), dtype=bool)
    found = pc.call_function("is_in", [_packed(keys)], pc.SetLookupOptions(_packed(wanted)))
    return found.to_numpy(zero_copy_only=False)


def _packed(keys: Keys) -> pa.FixedSizeBinaryArray:
    """Both integers of a key as one value of 16 bytes."""
    buffer = pa.py_buffer(np.ascontiguousarray(keys))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(keys), [None, buffer])


def _staying(path: Path, alive: Mask, batch: int) -> Iterator[pa.Table]:
    """The rows of a file that stay, some at a time."""
    start = 0
    with pq.ParquetFile(path) as file:
        for rows in file.iter_batches(batch):
            yield pa.Table.from_batches([rows]).filter(alive[start : start + rows.num_rows])
            start += rows.num_rows


def _not_of(path: Path, key: str, gone: NDArray[np.int64]) -> Iterator[pa.Table]:
    """The rows of a side table's file that belong to no record that went."""
    with pq.ParquetFile(path) as file:
        for rows in file.iter_batches():
            table = pa.Table.from_batches([rows])
            yield table.filter(~np.isin(table[key].to_numpy(), gone))


def _merged(
    old: Iterator[pa.Table], new: pa.Table, key: str, arrange: Callable[[pa.Table], Integers]
) -> Iterator[pa.Table]:
    """Old rows, which ascend, and new rows in one order, some at a time; `key` is what both ascend by first."""
    new = new.take(np.lexsort(arrange(new)[::-1]))
    new_keys = new[key].to_numpy()
    held, used = new.slice(0, 0), 0
    for rows in old:
        held = pa.concat_tables([held, rows])
        if not held.num_rows:
            continue
        keys = held[key].to_numpy()
        ready, fit = int(np.searchsorted(keys, keys[-1])), int(np.searchsorted(new_keys, keys[-1]))
        yield _joined(held.slice(0, ready), new.slice(used, fit - used), arrange)
        held, used = held.slice(ready), fit
    yield _joined(held, new.slice(used), arrange)


def _joined(old: pa.Table, new: pa.Table, arrange: Callable[[pa.Table], Integers]) -> pa.Table:
    if not new.num_rows:
        return old
    rows = pa.concat_tables([old, new]).combine_chunks()
    return rows.take(np.lexsort(arrange(rows)[::-1]))
