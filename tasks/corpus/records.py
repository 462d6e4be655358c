"""The record stages: a release's files become bucketed tables, every record once, every unusable line kept beside.

What belongs here: the stages `paper_records`, `abstract_records`, `citation_records` and `full_texts`. What does not:
decoding (`tasks/release`, `record_formats`), the external sort (`spills`), joining tables (`papers`, `references`).

First every release file is parsed, several at once, into runs sorted by bucket and key; then every bucket is merged.
What a bucket's file holds depends on the records alone, not on their split into files nor on the number of workers.
"""

import gc
from collections import Counter
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pydantic import Field

from schemas.errors import BadInput, ReleaseError
from schemas.identifiers import DatasetName
from schemas.manifest import Counts
from schemas.release import SourceFile
from schemas.settings import Settings
from schemas.tables.quarantine import QUARANTINE
from tasks.corpus.record_formats import FORMATS, Format
from tasks.corpus.spills import RunWriter, merge_runs
from tasks.release.decode import Row
from tasks.release.lines import Line, parse_line, read_lines
from tasks.store.dataset import MAIN
from tasks.store.parquet import TableWriter
from tasks.store.stage import stage
from tasks.store.workspace import Shard, Workspace

PLACE_COLUMNS = ("line", "byte_offset")
"""Where a record stands in its file; goes with it as far as the merge."""

BATCH_BYTES = 1024 * 1024
"""Bytes of lines whose rows are held as Python objects before they become Arrow columns: what a cache holds."""

LINE_COST = 200
"""What a line counts for beside its bytes, so that many short lines do not make a batch large."""


class RecordSettings(Settings):
    """How records are laid out."""

    buckets: int = Field(default=16, ge=1, le=4096, description="Files of the dataset: corpus_id modulo this.")


@stage("paper_records", version=1, settings=RecordSettings)
def paper_records(work: Workspace[RecordSettings]) -> None:
    """The release's `papers` as the table `paper_records`."""
    _build(work)


@stage("abstract_records", version=1, settings=RecordSettings)
def abstract_records(work: Workspace[RecordSettings]) -> None:
    """The release's `abstracts` as the table `abstract_records`; blank abstracts are counted and left out."""
    _build(work)


@stage("citation_records", version=1, settings=RecordSettings)
def citation_records(work: Workspace[RecordSettings]) -> None:
    """The release's `citations` as the table `citation_records`, bucketed by the citing paper."""
    _build(work)


@stage("full_texts", version=1, settings=RecordSettings)
def full_texts(work: Workspace[RecordSettings]) -> None:
    """The release's `s2orc` or `s2orc_v2` as the tables `full_texts` and `bibliography`."""
    _build(work)


class _ParseTask(NamedTuple):
    """One release file to parse; `place` is its number among the sorted names."""

    folder: Path
    source: SourceFile
    place: int
    dataset: DatasetName
    buckets: int

    @property
    def shard(self) -> str:
        """Name of the shard, and of the scratch folder that holds its runs."""
        return f"parse-{self.place:05d}-{self.source.sha256[:12]}"


class _MergeTask(NamedTuple):
    """One bucket to merge out of all runs, each with the place of its release file among `names`."""

    bucket: int
    runs: list[tuple[int, Path]]
    names: list[str]
    dataset: DatasetName


def _build(work: Workspace[RecordSettings]) -> None:
    files, buckets = work.release("files"), work.settings.buckets
    sources = sorted(files.files, key=lambda source: source.name)
    parse = [_ParseTask(files.directory, source, place, files.dataset, buckets) for place, source in enumerate(sources)]
    work.map_shards(_parse_file, {task.shard: task for task in parse})
    runs = [(task.place, path) for task in parse for path in sorted((work.scratch / task.shard).glob("*.arrow"))]
    names = [source.name for source in sources]
    merge = [_MergeTask(bucket, runs, names, files.dataset) for bucket in range(buckets)]
    work.map_shards(_merge_bucket, {f"bucket-{task.bucket:05d}": task for task in merge})


def _parse_file(shard: Shard, task: _ParseTask) -> None:
    """Reads one release file into runs, and its unusable lines into a quarantine file."""
    path = task.folder / task.source.name
    if (size := path.stat().st_size) != task.source.size:
        raise ReleaseError(f"{path}: has {size} bytes, had {task.source.size} when the build began; run it again")
    form = FORMATS[task.dataset]
    numbers = count()
    runs = RunWriter(lambda: shard.scratch(f"{task.shard}/{next(numbers):05d}.arrow"), form.key, task.buckets)
    quarantine = TableWriter(shard.file(f"quarantine-lines-{task.place:05d}.parquet"), QUARANTINE)
    with quarantine, _without_collection():
        batch = _Batch(form, task.source.name, runs, quarantine)
        for line in read_lines(path):
            batch.add(line)
        batch.flush()
        runs.close()
    shard.counts.add(batch.counts)
    _check_usable(path, batch.counts)


@contextmanager
def _without_collection() -> Generator[None]:
    """Decoded records hold no cycles: the collector would walk them over and over and find nothing."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class _Batch:
    """Lines on their way to Arrow columns: rows for the runs, unusable lines for the quarantine."""

    def __init__(self, form: Format, name: str, runs: RunWriter, quarantine: TableWriter) -> None:
        self._form = form
        self._name = name
        self._runs = runs
        self._quarantine = quarantine
        self._rows: list[Row] = []
        self._places: list[tuple[int, int]] = []
        self._rejected: list[tuple[str, int, int, str, str]] = []
        self._notes: Counter[str] = Counter()
        self._bytes = 0
        self.counts = Counts()

    def add(self, line: Line) -> None:
        """Decodes a line, or puts it aside with the reason."""
        try:
            self._rows.append(self._form.decode(parse_line(line), self._notes))
            self._places.append((line.number, line.offset))
        except BadInput as error:
            self._rejected.append((self._name, line.number, line.offset, str(error), line.excerpt))
        self._bytes += len(line.data) + LINE_COST
        if self._bytes >= BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Hands over what is held, and counts it."""
        if self._rows:
            rows = self._form.tabulate(self._rows)
            for name, column in zip(PLACE_COLUMNS, zip(*self._places, strict=True), strict=True):
                rows = rows.append_column(name, pa.array(column, pa.int64()))
            self._runs.write(rows)
        if self._rejected:
            columns = zip(*self._rejected, strict=True)
            self._quarantine.write(pa.table(dict(zip(QUARANTINE.arrow.names, columns, strict=True))))
        reasons = Counter(reason for _, _, _, reason, _ in self._rejected)
        self.counts.add(
            Counts(read=len(self._rows) + len(self._rejected), dropped=dict(reasons), notes=dict(self._notes))
        )
        for held in (self._rows, self._places, self._rejected, self._notes):
            held.clear()
        self._bytes = 0


def _check_usable(path: Path, counts: Counts) -> None:
    if not counts.read:
        raise ReleaseError(f"{path}: holds no line; fetch the file again")
    if counts.read == sum(counts.dropped.values()):
        raise ReleaseError(
            f"{path}: none of its {counts.read} lines can be used ({_list_reasons(counts)}): neither gzip nor JSON "
            "lines of this dataset; fetch the file again"
        )


def _list_reasons(counts: Counts) -> str:
    return ", ".join(f"{reason}: {number}" for reason, number in sorted(counts.dropped.items()))


def _merge_bucket(shard: Shard, task: _MergeTask) -> None:
    """Writes the files of one bucket: of several records of the same thing the last, the others to the quarantine."""
    form, suffix = FORMATS[task.dataset], f"{task.bucket:05d}.parquet"
    with ExitStack() as stack:
        quarantine = stack.enter_context(TableWriter(shard.file(f"quarantine-duplicates-{suffix}"), QUARANTINE))
        main, *side = form.tables
        writers = [TableWriter(shard.file(f"{MAIN}-{suffix}"), main, row_group=form.row_group, level=form.level)]
        writers += [TableWriter(shard.file(f"{table.name}-{suffix}"), table) for table in side]
        for writer in writers:
            stack.enter_context(writer)
        for window in merge_runs(task.runs, form.key, task.bucket):
            standing, repeated = _resolve(window, form)
            kept = standing[window[form.required].is_valid().to_numpy()[standing]]
            dropped = {"duplicate": len(repeated), f"no_{form.required}": len(standing) - len(kept)}
            shard.counts.add(Counts(kept=len(kept), dropped={reason: n for reason, n in dropped.items() if n}))
            if len(repeated):
                quarantine.write(_describe_duplicates(window.take(repeated), form.key, task.names))
            rows = window.drop_columns(["place", *PLACE_COLUMNS]).take(kept)
            for writer, table in zip(writers, form.part(rows), strict=True):
                writer.write(table)


def _resolve(window: pa.Table, form: Format) -> tuple[np.ndarray, np.ndarray]:
    """Indices of the rows that stand, in the order of the file, and of the earlier records of the same things."""
    identity, arrangement = form.identify(window), form.arrange(window)
    order = np.lexsort(identity[::-1])
    changes = [column[order[1:]] != column[order[:-1]] for column in identity]
    last = np.append(np.any(changes, axis=0), True)
    standing = order[last]
    return standing[np.lexsort([column[standing] for column in arrangement[::-1]])], order[~last]


def _describe_duplicates(rows: pa.Table, key: str, names: list[str]) -> pa.Table:
    """Quarantine rows; the excerpt is the record's key, since the line itself is not kept."""
    excerpts = [f"{key}: {value}" for value in rows[key].to_pylist()]
    columns = [
        pa.array([names[place] for place in rows["place"].to_pylist()], pa.string()),
        *(rows[name] for name in PLACE_COLUMNS),
        pa.array(["duplicate"] * rows.num_rows, pa.string()),
        pa.array(excerpts, pa.string()),
    ]
    return pa.Table.from_arrays(columns, QUARANTINE.arrow.names)
