"""The record stages: they turn a release's files into bucketed tables and quarantine every line they cannot use.

Each release file is first parsed into runs sorted by bucket and key, several files at once; then each bucket is merged
from all runs. A bucket's file depends on the records alone, not on how they were split into files nor on the number of
workers. A release read from all its files (input `files`) and the same release made from an earlier one (inputs
`earlier` and `diff-<n>`, see `diff_merging`) are therefore the same dataset.
"""

from contextlib import ExitStack
from typing import NamedTuple

from pydantic import Field

from schemas.identifiers import DatasetName
from schemas.manifest import Counts
from schemas.settings import Settings
from schemas.tables.quarantine import QUARANTINE
from tasks.corpus.deduplication import RecordRuns, drop_incomplete, merge_records
from tasks.corpus.diff_merging import apply_diffs
from tasks.corpus.external_sort import RunWriter
from tasks.corpus.record_formats import FORMATS
from tasks.corpus.record_parsing import (
    ParseTask,
    Rejects,
    check_usable,
    find_runs,
    new_run_file,
    parse_file,
    read_records,
)
from tasks.store.dataset import MAIN
from tasks.store.parquet import TableWriter
from tasks.store.shard import Shard
from tasks.store.stage import stage
from tasks.store.workspace import Workspace


class RecordSettings(Settings):
    """How records are read and laid out."""

    buckets: int = Field(default=16, ge=1, le=4096, description="Files of the dataset: corpus_id modulo this.")
    line_mib: int = Field(default=32, ge=1, le=1024, description="Longest line that is read, in MiB.")

    @property
    def line_limit(self) -> int:
        """Longest line that is read, in bytes."""
        return self.line_mib * 2**20


@stage("paper_records", version=2, settings=RecordSettings)
def paper_records(work: Workspace[RecordSettings]) -> None:
    """Writes the release's `papers` as the table `paper_records`."""
    _build(work)


@stage("abstract_records", version=2, settings=RecordSettings, after="paper_records")
def abstract_records(work: Workspace[RecordSettings]) -> None:
    """Writes the release's `abstracts` as the table `abstract_records`; blank abstracts are counted and left out."""
    _build(work)


@stage("citation_records", version=2, settings=RecordSettings, after="abstract_records")
def citation_records(work: Workspace[RecordSettings]) -> None:
    """Writes the release's `citations` as the table `citation_records`, bucketed by the citing paper."""
    _build(work)


@stage("full_texts", version=2, settings=RecordSettings, after="citation_records")
def full_texts(work: Workspace[RecordSettings]) -> None:
    """Writes the release's `s2orc` or `s2orc_v2` as the tables `full_texts` and `bibliography`."""
    _build(work)


class _MergeTask(NamedTuple):
    """One bucket to merge from all runs."""

    bucket: int
    runs: RecordRuns
    dataset: DatasetName


def _build(work: Workspace[RecordSettings]) -> None:
    if "earlier" in work.inputs:
        apply_diffs(work, work.settings.buckets, work.settings.line_limit)
    else:
        _read_release(work)


def _read_release(work: Workspace[RecordSettings]) -> None:
    files, buckets, line_limit = work.release("files"), work.settings.buckets, work.settings.line_limit
    sources = sorted(files.files, key=lambda source: source.name)
    parse = [
        ParseTask(files.directory / source.name, source, files.dataset, place, buckets, source.name, line_limit)
        for place, source in enumerate(sources)
    ]
    sizes = {task.shard: task.source.size for task in parse}
    work.map_shards(_parse_file, {task.shard: task for task in parse}, sizes=sizes)
    runs = RecordRuns(find_runs(work.scratch, parse), [task.name for task in parse])
    merge = [_MergeTask(bucket, runs, files.dataset) for bucket in range(buckets)]
    shards = {f"bucket-{task.bucket:05d}": task for task in merge}
    work.map_shards(_merge_bucket, shards, sizes=dict.fromkeys(shards, runs.size // buckets))


def _parse_file(shard: Shard, task: ParseTask) -> None:
    check_usable(task.path, parse_file(shard, task, _read_file))


def _read_file(shard: Shard, task: ParseTask, rejects: Rejects) -> Counts:
    return read_records(task, RunWriter(new_run_file(shard, task), task.form.key, task.buckets), rejects)


def _merge_bucket(shard: Shard, task: _MergeTask) -> None:
    """Writes the files of one bucket, and a quarantine file of its duplicates."""
    form, suffix = FORMATS[task.dataset], f"{task.bucket:05d}.parquet"
    with ExitStack() as stack:
        quarantine = stack.enter_context(TableWriter(shard.file(f"quarantine-duplicates-{suffix}"), QUARANTINE))
        main, *side = form.tables
        writers = [TableWriter(shard.file(f"{MAIN}-{suffix}"), main, row_group=form.row_group, level=form.level)]
        writers += [TableWriter(shard.file(f"{table.name}-{suffix}"), table) for table in side]
        for writer in writers:
            stack.enter_context(writer)
        for rows in merge_records(task.runs, form, task.bucket, quarantine, shard.counts):
            for writer, table in zip(writers, form.split(drop_incomplete(rows, form, shard.counts)), strict=True):
                writer.write(table)
        shard.counts.kept = writers[0].rows
