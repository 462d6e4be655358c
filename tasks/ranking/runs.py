"""The `run` stage: a system answers every topic; writes its run, its searches and its outcomes."""

from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

from schemas.errors import StageFailed
from schemas.settings import REQUIRED_DATASETS, Isolate, Resources, RetrieverName
from schemas.tables.runs import OUTCOMES, OUTLINES, RUNS, SEARCHES, STEPS, OutcomeRow, OutlineRow, RunRow, SearchRow
from schemas.topic import Topic
from tasks.llm.asker import Asker, require_model
from tasks.llm.earlier_answers import FALLBACK
from tasks.llm.journal import SubjectRows
from tasks.llm.subjects import Answerer, Subjects, answer_subjects
from tasks.ranking.answers import SystemSettings, answer_topic
from tasks.ranking.baseline import Kit, System, find_baseline
from tasks.ranking.evaluated_topics import evaluated_topics, read_qrels
from tasks.ranking.isolated.system import is_isolated, place_system, require_apart
from tasks.retrieval.backend import SearchBackend, open_backend
from tasks.store.dataset import Dataset
from tasks.store.stage import require_version, stage
from tasks.store.workspace import Workspace

__all__ = ["SystemSettings", "run"]

Folders = tuple[tuple[str, Path], ...]
"""Folder of each input dataset by its name."""

NOT_SEARCHED = ("topics", "mindmaps")
"""Inputs that say which topics are answered; systems search the others."""

VECTORS = {"embeddings", "lsa"}
"""Inputs whose vectors lie in memory."""

SHARD_TOPICS = 16

AT_ONCE = 32
"""Topics answered at once where no model is asked: their dense searches share passes over the vectors."""

TABLES = {"part": RUNS, "searches": SEARCHES, "steps": STEPS, "outcomes": OUTCOMES, "outlines": OUTLINES}


@stage("run", version=3, settings=SystemSettings, after="ann_recall")
def run(work: Workspace[SystemSettings]) -> None:
    """Writes RUNS and, as side tables, SEARCHES, STEPS and OUTCOMES; a shard holds 16 topics.

    Further side tables are MODEL_CALLS, with a model, and OUTLINES, of systems that write outlines.

    Inputs: `topics`, `documents`, `surveys`, and what the retriever needs of `bm25`, `embeddings`, `lsa`, `ann`; with
    `mindmaps`, only the topics that have one are answered.

    Without vectors or a model, shards run in worker processes, which share the index on disk. Otherwise they run in
    this process, topics of all shards at once: with a model as many as its endpoint takes, otherwise `AT_ONCE`. A topic
    for which something stood in for a failed model call is marked `fallback`, and counts as dropped.

    Raises:
        StageFailed: The registered baseline has another version than the settings say, or an input is missing.
        UsageError: The baseline asks a model, and the settings or the machine have none.
    """
    settings = work.settings
    _check_system(work)
    _require_inputs(work)
    maps = work.dataset("mindmaps") if "mindmaps" in work.inputs else None
    topics = evaluated_topics(work.dataset("topics"), settings, maps)
    in_workers = VECTORS.isdisjoint(work.inputs) and settings.model is None
    searched = tuple((name, work.dataset(name).folder) for name in sorted(work.inputs) if name not in NOT_SEARCHED)
    relevant = read_qrels(work.dataset("topics")) if settings.references == "oracle" else None
    items = [Topic(*row) for row in topics.select("topic_id", "title", "horizon").iter_rows()]
    made = _Run(settings, searched, relevant, None if in_workers else work.resources, work.resources.isolate)
    subjects = Subjects(
        items=items,
        shard_size=SHARD_TOPICS,
        name=_topic_id,
        tables=TABLES,
        open=made.open,
        model=settings.model,
        optional=("outlines",),
        in_workers=in_workers,
        at_once=AT_ONCE,
        key=("topic_id",),
    )
    answer_subjects(work, subjects)


def _topic_id(topic: Topic) -> str:
    return str(topic.topic_id)


def _check_system(work: Workspace[SystemSettings]) -> None:
    settings = work.settings
    baseline, name = find_baseline(settings.baseline), f"baseline {settings.baseline}"
    require_model(name, baseline.asks is not None, settings.model)
    require_version(f"stage run: {name}", baseline.version, settings.baseline_version)
    if is_isolated(settings.baseline, settings.own, work.resources.isolate):
        require_apart(work.folder)


def _require_inputs(work: Workspace[SystemSettings]) -> None:
    needed = {"topics", "documents", "surveys", *REQUIRED_DATASETS[work.settings.retriever]}
    if lacking := needed - set(work.inputs):
        raise StageFailed(
            f"stage run: {work.settings.tag} searches with {work.settings.retriever} and lacks "
            f"{', '.join(sorted(lacking))}; build the index of field {work.settings.field} first"
        )


class _Run(NamedTuple):
    """What answering topics takes; can be sent to worker processes.

    Attributes:
        settings: Which system.
        folders: Where the indexes are.
        relevant: Of each topic the documents that may be found; None: all documents.
        resources: Of this machine; None in worker processes.
        isolate: Which systems run in a process of their own.
    """

    settings: SystemSettings
    folders: Folders
    relevant: Mapping[int, Collection[int]] | None
    resources: Resources | None
    isolate: Isolate = "foreign"

    @contextmanager
    def open(self) -> Generator[Answerer[Topic]]:
        """Opens the indexes; a worker process opens them once for all its shards."""
        retriever = self.settings.retriever
        system = place_system(self.settings.baseline, self.settings.own, self.isolate)
        if self.resources is None:
            yield partial(self.answer, system, _open_once(retriever, self.folders))
        else:
            yield partial(self.answer, system, _open(retriever, self.folders, self.resources))

    def answer(self, system: System, backend: SearchBackend, topic: Topic, asker: Asker | None) -> SubjectRows:
        """Asks the system for one topic."""
        settings = self.settings
        only = None if self.relevant is None else self.relevant.get(topic.topic_id, ())
        parameters = settings.own.parameters if settings.own else {}
        kit = Kit(backend.desk(topic, only), settings.cutoff, settings.seed, asker, parameters)
        answer = answer_topic(system, topic, kit)
        rows = [
            *(
                RunRow(topic.topic_id, hit.corpus_id, rank, hit.score, settings.tag)
                for rank, hit in enumerate(answer.hits, 1)
            ),
            *(SearchRow(*search) for search in kit.desk.searches),
            *kit.desk.steps,
            OutcomeRow(topic.topic_id, answer.outcome, answer.note, answer.fallback),
            *([OutlineRow(topic.topic_id, answer.outline)] if answer.outline else []),
        ]
        return SubjectRows(rows, FALLBACK if answer.fallback and answer.outcome == "scored" else answer.outcome)


def _open(retriever: RetrieverName, folders: Folders, resources: Resources) -> SearchBackend:
    return open_backend(retriever, {name: Dataset(folder) for name, folder in folders}, resources)


@lru_cache(maxsize=1)
def _open_once(retriever: RetrieverName, folders: Folders) -> SearchBackend:
    """The indexes of a worker process; without embeddings, the machine's resources do not matter."""
    return _open(retriever, folders, Resources())
