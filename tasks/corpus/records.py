"""The record stages: a release's files become bucketed tables, every record once, every unusable line kept beside.

First every release file is parsed, several at once, into runs sorted by bucket and key; then every bucket is merged.
What a bucket's file holds depends on the records alone, not on their split into files nor on the number of workers: a
release read whole (input `files`) and the same release made of an earlier one (inputs `earlier` and `diff-<n>`, see
`updates`) are the same dataset.
"""

from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import NamedTuple

from pydantic import Field

from schemas.identifiers import DatasetName
from schemas.manifest import Counts
from schemas.release import SourceFile
from schemas.settings import Settings
from schemas.tables.quarantine import QUARANTINE
from tasks.corpus.diff_merging import apply_diffs
from tasks.corpus.external_sort import RunWriter, merge_runs
from tasks.corpus.record_formats import FORMATS
from tasks.corpus.record_parsing import (
    PLACE_COLUMNS,
    Batch,
    Rejects,
    check_unchanged,
    check_usable,
    describe_duplicates,
    resolve,
    without_collection,
)
from tasks.release.lines import read_lines
from tasks.store.dataset import MAIN
from tasks.store.parquet import TableWriter
from tasks.store.shard import Shard
from tasks.store.stage import stage
from tasks.store.workspace import Workspace


class RecordSettings(Settings):
    """How records are laid out."""

    buckets: int = Field(default=16, ge=1, le=4096, description="Files of the dataset: corpus_id modulo this.")


@stage("paper_records", version=1, settings=RecordSettings)
def paper_records(work: Workspace[RecordSettings]) -> None:
    """The release's `papers` as the table `paper_records`."""
    _build(work)


@stage("abstract_records", version=1, settings=RecordSettings, after="paper_records")
def abstract_records(work: Workspace[RecordSettings]) -> None:
    """The release's `abstracts` as the table `abstract_records`; blank abstracts are counted and left out."""
    _build(work)


@stage("citation_records", version=1, settings=RecordSettings, after="abstract_records")
def citation_records(work: Workspace[RecordSettings]) -> None:
    """The release's `citations` as the table `citation_records`, bucketed by the citing paper."""
    _build(work)


@stage("full_texts", version=1, settings=RecordSettings, after="citation_records")
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
    if "earlier" in work.inputs:
        apply_diffs(work, work.settings.buckets)
    else:
        _read_release(work)


def _read_release(work: Workspace[RecordSettings]) -> None:
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
    check_unchanged(path, task.source)
    form = FORMATS[task.dataset]
    numbers = count()
    runs = RunWriter(lambda: shard.scratch(f"{task.shard}/{next(numbers):05d}.arrow"), form.key, task.buckets)
    quarantine = TableWriter(shard.file(f"quarantine-lines-{task.place:05d}.parquet"), QUARANTINE)
    with quarantine, without_collection():
        batch = Batch(form, runs, Rejects(task.source.name, quarantine))
        for line in read_lines(path):
            batch.add(line)
        batch.flush()
        runs.close()
    shard.counts.add(batch.counts)
    check_usable(path, batch.counts)


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
            standing, repeated = resolve(window, form)
            kept = standing[window[form.required].is_valid().to_numpy()[standing]]
            dropped = {"duplicate": len(repeated), f"no_{form.required}": len(standing) - len(kept)}
            shard.counts.add(Counts(kept=len(kept), dropped={reason: n for reason, n in dropped.items() if n}))
            if len(repeated):
                quarantine.write(describe_duplicates(window.take(repeated), form.key, task.names))
            rows = window.drop_columns(["place", *PLACE_COLUMNS]).take(kept)
            for writer, table in zip(writers, form.part(rows), strict=True):
                writer.write(table)
