"""The `run` stage: a system answers every topic; its run, its searches and its outcomes are written."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import nullcontext
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from schemas.errors import StageFailed, UsageError
from schemas.llm import LlmAccess
from schemas.settings import Resources, RetrieverName
from schemas.tables.runs import OUTCOMES, OUTLINES, RUNS, SEARCHES
from schemas.topic import Topic
from tasks.llm.asker import Asker, in_threads, open_door, write_calls
from tasks.llm.blocking import BlockingDoor
from tasks.ranking.answers import Answer, SystemSettings, answer_topic
from tasks.ranking.baseline import Kit, System, find_baseline
from tasks.ranking.evaluated_topics import evaluated_topics, read_qrels
from tasks.retrieval.backend import REQUIRED_DATASETS, SearchBackend, open_backend
from tasks.store.dataset import Dataset
from tasks.store.parquet import write_table
from tasks.store.shard import Shard, in_shards
from tasks.store.stage import require_version, stage
from tasks.store.workspace import Workspace

__all__ = ["SystemSettings", "run"]

Row = dict[str, Any]
Folders = tuple[tuple[str, Path], ...]
"""Folder of each input dataset by its name."""

OPENED_HERE = ("topics", "mindmaps")
"""Inputs that say which topics are asked; the others are where systems search."""

SHARD_TOPICS = 16
"""Topics of a shard: what a killed run answers again at most."""


class _Group(NamedTuple):
    """Topics of one shard, and what a worker process needs to open its backend; folders by input name."""

    topics: tuple[Topic, ...]
    settings: SystemSettings
    folders: Folders
    relevant: Mapping[int, Collection[int]] | None


@stage("run", version=1, settings=SystemSettings, after="ann")
def run(work: Workspace[SystemSettings]) -> None:
    """Writes RUNS and, as side tables, SEARCHES, OUTCOMES and, of a model, MODEL_CALLS; a shard holds 16 topics.

    OUTLINES is a side table too, of systems that write outlines.

    Inputs: `topics`, `documents`, `surveys`, and what the retriever needs of `bm25`, `embeddings`, `ann`; with
    `mindmaps` just the topics that have one are asked.

    Without embeddings or a model, shards run in worker processes, which share the index on disk; otherwise one after
    the other in this process, which alone holds the vectors and the door; with a model, a shard's topics in threads.

    Raises:
        StageFailed: The registered baseline has another version than the settings say, or an input is lacking.
        UsageError: The baseline asks a model, and the settings or the machine have none.
    """
    settings = work.settings
    _system(settings)
    _require_inputs(work)
    folders = tuple((name, work.dataset(name).folder) for name in sorted(work.inputs) if name not in OPENED_HERE)
    maps = work.dataset("mindmaps") if "mindmaps" in work.inputs else None
    rows = evaluated_topics(work.dataset("topics"), settings.limit_topics, maps)
    topics = [Topic(*row) for row in rows.select("topic_id", "title", "horizon").iter_rows()]
    relevant = read_qrels(work.dataset("topics")) if settings.references == "oracle" else None
    groups = {
        name: _Group(tuple(of_shard), settings, folders, relevant)
        for name, of_shard in in_shards(topics, SHARD_TOPICS, least=1).items()
    }
    if "embeddings" not in work.inputs and settings.model is None:
        work.map_shards(_answer_group, groups)
        return
    if work.finished() >= set(groups):
        return
    backend = _open(settings.retriever, folders, work.resources)
    with open_door(work.llm, settings.model) if settings.model else nullcontext() as door:
        for shard in work.pending(list(groups)):
            with shard:
                _write_group(shard, groups[shard.name], backend, door, work.llm)


def _system(settings: SystemSettings) -> System:
    baseline = find_baseline(settings.baseline)
    if (baseline.asks is None) != (settings.model is None):
        needs = "asks a model; name one" if baseline.asks else "asks no model; name none"
        raise UsageError(f"baseline {settings.baseline} {needs}")
    require_version(f"stage run: baseline {settings.baseline}", baseline.version, settings.baseline_version)
    return baseline.system


def _require_inputs(work: Workspace[SystemSettings]) -> None:
    needed = {"topics", "documents", "surveys", *REQUIRED_DATASETS[work.settings.retriever]}
    if lacking := needed - set(work.inputs):
        raise StageFailed(
            f"stage run: {work.settings.tag} searches with {work.settings.retriever} and lacks "
            f"{', '.join(sorted(lacking))}; build the index of field {work.settings.field} first"
        )


def _open(retriever: RetrieverName, folders: Folders, resources: Resources) -> SearchBackend:
    return open_backend(retriever, {name: Dataset(folder) for name, folder in folders}, resources)


@lru_cache(maxsize=1)
def _open_once(retriever: RetrieverName, folders: Folders) -> SearchBackend:
    """The backend of a worker process; it holds no embeddings, so nothing about the machine matters."""
    return _open(retriever, folders, Resources())


def _answer_group(shard: Shard, group: _Group) -> None:
    _write_group(shard, group, _open_once(group.settings.retriever, group.folders))


def _write_group(
    shard: Shard,
    group: _Group,
    backend: SearchBackend,
    door: BlockingDoor | None = None,
    access: LlmAccess | None = None,
) -> None:
    settings = group.settings
    answered = in_threads(lambda topic: _answer(topic, group, backend, door), group.topics, access if door else None)
    hits = [row for topic, answer, _ in answered for row in _run_rows(topic, answer, settings.tag)]
    searches = [search._asdict() for _, _, kit in answered for search in kit.desk.searches]
    outcomes = [
        {"topic_id": topic.topic_id, "outcome": answer.outcome, "note": answer.note, "fallback": answer.fallback}
        for topic, answer, _ in answered
    ]
    outlines = [
        {"topic_id": topic.topic_id, "outline": answer.outline} for topic, answer, _ in answered if answer.outline
    ]
    for prefix, table, rows in (
        ("part", RUNS, hits),
        ("searches", SEARCHES, searches),
        ("outcomes", OUTCOMES, outcomes),
        *([("outlines", OUTLINES, outlines)] if outlines else []),
    ):
        write_table(shard.file(f"{prefix}-{shard.name}.parquet"), table, pa.Table.from_pylist(rows, table.arrow))
    if door:
        write_calls(shard.file(f"calls-{shard.name}.parquet"), (kit.model for _, _, kit in answered))
    for _, answer, _ in answered:
        _count(shard, answer)


def _answer(
    topic: Topic, group: _Group, backend: SearchBackend, door: BlockingDoor | None
) -> tuple[Topic, Answer, Kit]:
    settings = group.settings
    only = None if group.relevant is None else group.relevant.get(topic.topic_id, ())
    asker = Asker(door, "run", settings.model, str(topic.topic_id)) if door and settings.model else None
    kit = Kit(backend.desk(topic, only), settings.cutoff, settings.seed, asker)
    return topic, answer_topic(_system(settings), topic, kit), kit


def _run_rows(topic: Topic, answer: Answer, tag: str) -> Iterator[Row]:
    for rank, (corpus_id, score) in enumerate(answer.hits, 1):
        yield {"topic_id": topic.topic_id, "corpus_id": corpus_id, "rank": rank, "score": score, "tag": tag}


def _count(shard: Shard, answer: Answer) -> None:
    counts = shard.counts
    counts.read += 1
    if answer.outcome == "scored":
        counts.kept += 1
    elif answer.outcome == "failed":
        counts.failed += 1
    else:
        counts.dropped[answer.outcome] = counts.dropped.get(answer.outcome, 0) + 1
