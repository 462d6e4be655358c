"""Makes the records of a new release from those of an earlier release and the diffs between the two.

The result is byte for byte the same as reading the whole new release; for the rules see
docs/decisions/0008-a-week-is-made-of-diffs-and-buckets.md. Only buckets that a diff changes are rewritten, a few
thousand rows at a time; the others are reused as they are. Memory holds one bucket's keys and changes, and for
citations the ids of all records that the diffs name.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from schemas.errors import BadInput
from schemas.identifiers import DatasetName
from schemas.manifest import FILE_FORMAT, Counts, FileEntry, ReleaseEntry
from schemas.release import ReleaseDataset
from schemas.tables.quarantine import QUARANTINE
from tasks.corpus.deduplication import drop_incomplete, merge_records
from tasks.corpus.diff_parsing import Cause, Diff, Keys, parse_diffs
from tasks.corpus.record_formats import FORMATS, Format, Integers
from tasks.store.dataset import MAIN, Dataset
from tasks.store.parquet import ParquetReader, TableWriter, read_table
from tasks.store.shard import Shard
from tasks.store.workspace import Workspace

Mask = NDArray[np.bool_]


class _ApplyTask(NamedTuple):
    """One bucket: its files in the earlier dataset, whether they are as they would be written today, and all diffs."""

    bucket: int
    buckets: int
    folder: Path
    files: tuple[FileEntry, ...]
    reusable: bool
    diffs: list[Diff]
    dataset: DatasetName

    @property
    def form(self) -> Format:
        return FORMATS[self.dataset]

    def keys(self, diff: Diff, cause: Cause) -> Keys:
        """Returns the keys of a diff that may belong to this bucket."""
        return diff.keys(cause, self.bucket, self.buckets)


def apply_diffs(work: Workspace[Any], buckets: int, line_limit: int) -> None:
    """Builds a record stage from the inputs `earlier` and `diff-<n>`; diffs apply in the order of their names.

    Counts: `read` counts the diffs' lines, `kept` the rows of the new dataset. Notes: `deletes` and `updates` are
    usable lines, with repeated updates counted once; `deleted`, `replaced` and `unusable` are rows removed by a delete,
    an update, and an update that cannot be used; `inserted` are updates of records that did not exist, of which
    `restored` had been deleted by these diffs; `deletes_unknown` are deletes of records that did not exist.

    Raises:
        BadInput: The earlier dataset has another number of buckets, or was made from another kind of files.
        ReleaseError: A file of a diff has changed, is damaged, or holds no usable line.
    """
    earlier = work.dataset("earlier")
    diffs = [work.release(name) for name in sorted(work.inputs) if name != "earlier"]
    _require_same_kind(work.stage, earlier, buckets, diffs)
    parsed, dataset = parse_diffs(work, diffs, buckets, line_limit), diffs[0].dataset
    reusable = earlier.manifest.file_format == FILE_FORMAT
    tasks = [
        _ApplyTask(bucket, buckets, earlier.folder, _files_of(earlier, bucket), reusable, parsed, dataset)
        for bucket in range(buckets)
    ]
    shards = {f"bucket-{task.bucket:05d}": task for task in tasks}
    sizes = {name: sum(file.size for file in task.files) for name, task in shards.items()}
    work.map_shards(_apply_to_bucket, shards, sizes=sizes)
    for shard in work.pending(["balance"]):
        with shard:
            notes = work.counts().notes
            shard.counts.notes = {
                "inserted": notes.get("updates", 0) - notes.get("replaced", 0),
                "deletes_unknown": notes.get("deletes", 0) - notes.get("deleted", 0),
            }


def _require_same_kind(stage: str, earlier: Dataset, buckets: int, diffs: list[ReleaseDataset]) -> None:
    manifest = earlier.manifest
    if manifest.stage != stage or manifest.parameters["buckets"] != buckets:
        raise BadInput(
            f"stage {stage}: the earlier dataset is {manifest.stage} with {manifest.parameters.get('buckets')} "
            f"buckets, but {buckets} were requested; build with the same number of buckets"
        )
    given = {entry.dataset for entry in manifest.inputs.values() if isinstance(entry, ReleaseEntry)}
    if len(given | {diff.dataset for diff in diffs}) != 1:
        raise BadInput(
            f"stage {stage}: the earlier dataset was made from {', '.join(sorted(given))}, but the diffs are of "
            f"{', '.join(sorted({diff.dataset for diff in diffs}))}; build the new release from all its files"
        )


def _files_of(dataset: Dataset, bucket: int) -> tuple[FileEntry, ...]:
    """Returns the files of one bucket, the main table's first, without quarantine files."""
    tables = FORMATS["s2orc"].tables
    prefixes = [MAIN, *(table.name for table in tables[1:])]
    names = [f"{prefix}-{bucket:05d}.parquet" for prefix in prefixes]
    found = {file.path: file for file in dataset.manifest.files}
    return tuple(found[name] for name in names if name in found)


class _Removal(NamedTuple):
    """Keys of the records to remove, and the reason."""

    cause: Cause
    keys: Keys


class _Changes(NamedTuple):
    """What the diffs change in one bucket: which earlier rows survive, and the new rows (input of `Format.split`)."""

    survives: Mask
    rows: pa.Table


def _apply_to_bucket(shard: Shard, task: _ApplyTask) -> None:
    """Writes the files of one bucket, or reuses the earlier ones when the diffs change nothing in it."""
    form, main = task.form, task.files[0]
    earlier = read_table(task.folder / main.path, columns=list(form.key_columns))
    changes = _find_changes(shard, task, form.keys(earlier))
    if task.reusable and changes.survives.all() and not changes.rows.num_rows:
        for file in task.files:
            shard.take(task.folder, file)
        shard.counts.kept = main.rows or 0
        return
    removed = earlier[form.key].to_numpy()[~changes.survives]
    new_main, *new_sides = form.split(changes.rows)
    surviving = _surviving_rows(task.folder / main.path, changes.survives, form.row_group)
    with TableWriter(shard.file(main.path), form.tables[0], row_group=form.row_group, level=form.level) as writer:
        for rows in _merge_sorted(surviving, form.tables[0].conform(new_main), form.key, form.arrange):
            writer.write(rows)
    shard.counts.kept = writer.rows
    for file, table, new in zip(task.files[1:], form.tables[1:], new_sides, strict=True):
        others = _rows_without(task.folder / file.path, form.key, removed)
        with TableWriter(shard.file(file.path), table) as side:
            for rows in _merge_sorted(others, table.conform(new), form.key, lambda rows: (rows[form.key].to_numpy(),)):
                side.write(rows)


def _find_changes(shard: Shard, task: _ApplyTask, earlier: Keys) -> _Changes:
    """Applies the diffs to the bucket's keys; duplicates within one diff go to the quarantine."""
    form, counts = task.form, shard.counts
    removals: list[_Removal] = []
    updates: list[tuple[int, pa.Table]] = []
    with TableWriter(shard.file(f"quarantine-duplicates-{task.bucket:05d}.parquet"), QUARANTINE) as quarantine:
        for diff in task.diffs:
            removals += [_Removal(cause, task.keys(diff, cause)) for cause in ("deleted", "unusable")]
            found = merge_records(diff.updates, form, task.bucket, quarantine, counts)
            rows = pa.concat_tables([form.empty(), *(window.cast(form.empty().schema) for window in found)])
            keys = form.keys(rows)
            deleted = np.concatenate([removal.keys for removal in removals if removal.cause == "deleted"])
            counts.add(Counts(notes={"updates": len(keys), "restored": int(_is_in(keys, deleted).sum())}))
            removals.append(_Removal("replaced", np.concatenate([keys, task.keys(diff, "replaced")])))
            updates.append((len(removals), rows))
    survives = _apply_removals(earlier, removals, counts)
    latest = [rows.filter(_apply_removals(form.keys(rows), removals[after:], counts)) for after, rows in updates]
    return _Changes(survives, drop_incomplete(pa.concat_tables(latest), form, counts))


def _apply_removals(keys: Keys, removals: Sequence[_Removal], counts: Counts) -> Mask:
    """Returns which rows survive all removals; the others are counted by the first removal that names them."""
    survives = np.ones(len(keys), dtype=bool)
    for removal in removals:
        hit = survives & _is_in(keys, removal.keys)
        counts.add(Counts(notes={removal.cause: int(hit.sum())}))
        survives &= ~hit
    return survives


def _is_in(keys: Keys, wanted: Keys) -> Mask:
    if not len(keys) or not len(wanted):
        return np.zeros(len(keys), dtype=bool)
    found = pc.call_function("is_in", [_as_bytes(keys)], pc.SetLookupOptions(_as_bytes(wanted)))
    return found.to_numpy(zero_copy_only=False)


def _as_bytes(keys: Keys) -> pa.FixedSizeBinaryArray:
    """Returns both integers of each key as one value of 16 bytes."""
    buffer = pa.py_buffer(np.ascontiguousarray(keys))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(keys), [None, buffer])


def _surviving_rows(path: Path, survives: Mask, batch: int) -> Iterator[pa.Table]:
    start = 0
    with ParquetReader(path) as file:
        for rows in file.iter_batches(batch):
            yield pa.Table.from_batches([rows]).filter(survives[start : start + rows.num_rows])
            start += rows.num_rows


def _rows_without(path: Path, key: str, removed: NDArray[np.int64]) -> Iterator[pa.Table]:
    """Yields the rows of a side table's file whose record was not removed."""
    with ParquetReader(path) as file:
        for rows in file.iter_batches():
            table = pa.Table.from_batches([rows])
            yield table.filter(~np.isin(table[key].to_numpy(), removed))


def _merge_sorted(
    old: Iterator[pa.Table], new: pa.Table, key: str, arrange: Callable[[pa.Table], Integers]
) -> Iterator[pa.Table]:
    """Yields old rows, which ascend, and new rows merged into one order; `key` is the first column of that order."""
    new = new.take(np.lexsort(arrange(new)[::-1]))
    new_keys = new[key].to_numpy()
    held, used = new.slice(0, 0), 0
    for rows in old:
        held = pa.concat_tables([held, rows])
        if not held.num_rows:
            continue
        keys = held[key].to_numpy()
        ready, fit = int(np.searchsorted(keys, keys[-1])), int(np.searchsorted(new_keys, keys[-1]))
        yield _concat_sorted(held.slice(0, ready), new.slice(used, fit - used), arrange)
        held, used = held.slice(ready), fit
    yield _concat_sorted(held, new.slice(used), arrange)


def _concat_sorted(old: pa.Table, new: pa.Table, arrange: Callable[[pa.Table], Integers]) -> pa.Table:
    if not new.num_rows:
        return old
    rows = pa.concat_tables([old, new]).combine_chunks()
    return rows.take(np.lexsort(arrange(rows)[::-1]))
