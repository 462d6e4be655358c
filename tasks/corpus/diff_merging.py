"""Records of a release made of an earlier release's records and the diffs between them.

The result is, byte for byte, what reading the new release whole gives; the rules are those of
infra/decisions/0008-a-week-is-made-of-diffs-and-buckets.md. Only buckets that a diff touches are rewritten, a few
thousand rows in memory at a time; the others are taken over as they are. In memory are a bucket's keys and its changes,
and of citations the ids of all that the diffs name.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from schemas.errors import BadInput
from schemas.identifiers import DatasetName
from schemas.manifest import Counts, FileEntry, ReleaseEntry
from schemas.release import ReleaseDataset
from schemas.tables.quarantine import QUARANTINE
from tasks.corpus.diff_parsing import Cause, Diff, Diffs, Keys, read_diffs
from tasks.corpus.external_sort import merge_runs
from tasks.corpus.record_formats import FORMATS, Format, Integers
from tasks.corpus.record_parsing import PLACE_COLUMNS, describe_duplicates, resolve
from tasks.store.dataset import MAIN, Dataset
from tasks.store.parquet import TableWriter
from tasks.store.shard import Shard
from tasks.store.workspace import Workspace

Mask = NDArray[np.bool_]


class _ApplyTask(NamedTuple):
    """One bucket: its files in the earlier dataset, and all diffs in order."""

    bucket: int
    buckets: int
    folder: Path
    files: tuple[FileEntry, ...]
    read: Diffs
    dataset: DatasetName

    def keys(self, diff: Diff, cause: Cause) -> Keys:
        """The keys of a diff that may be of this bucket."""
        return diff.keys(cause, self.bucket, self.buckets)


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
    read, dataset = read_diffs(work, diffs, buckets), diffs[0].dataset
    apply = [
        _ApplyTask(bucket, buckets, earlier.folder, _files_of(earlier, bucket), read, dataset)
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


def _files_of(dataset: Dataset, bucket: int) -> tuple[FileEntry, ...]:
    """Files of one bucket, the main table's first; what was put aside when they were made is not among them."""
    tables = FORMATS["s2orc"].tables
    prefixes = [MAIN, *(table.name for table in tables[1:])]
    names = [f"{prefix}-{bucket:05d}.parquet" for prefix in prefixes]
    found = {file.path: file for file in dataset.manifest.files}
    return tuple(found[name] for name in names if name in found)


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
        for diff in task.read.diffs:
            events += [_Event(cause, task.keys(diff, cause)) for cause in ("deleted", "unusable")]
            rows = pa.concat_tables([form.empty(), *_updates(shard, task, diff, quarantine)])
            keys = form.keys(rows)
            deleted = np.concatenate([event.keys for event in events if event.cause == "deleted"])
            restored = int(_are_among(keys, deleted).sum())
            shard.counts.add(Counts(notes={"updates": len(keys), "restored": restored}))
            events.append(_Event("replaced", np.concatenate([keys, task.keys(diff, "replaced")])))
            arrived.append((len(events), rows))
    alive = _strike(earlier, events, shard.counts)
    latest = [rows.filter(_strike(form.keys(rows), events[after:], shard.counts)) for after, rows in arrived]
    rows = pa.concat_tables(latest)
    usable = rows.filter(rows[form.required].is_valid())
    if lacking := rows.num_rows - usable.num_rows:
        shard.counts.add(Counts(dropped={f"no_{form.required}": lacking}))
    return _Changes(alive, usable)


def _updates(shard: Shard, task: _ApplyTask, diff: Diff, quarantine: TableWriter) -> Iterator[pa.Table]:
    """The rows of one diff's updates, of repeated ones the last."""
    form = FORMATS[task.dataset]
    for window in merge_runs(diff.runs, form.key, task.bucket):
        standing, repeated = resolve(window, form)
        if len(repeated):
            quarantine.write(describe_duplicates(window.take(repeated), form.key, task.read.names))
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
