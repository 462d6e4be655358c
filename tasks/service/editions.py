"""The editions of a store as they are served: the tasks of each, and its desks, opened when a run needs them."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, timedelta
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, get_args

import numpy as np

from schemas.errors import ArenaError, UsageError
from schemas.manifest import EditionManifest
from schemas.paperqa import Question
from schemas.settings import REQUIRED_DATASETS, Resources, RetrieverName, TopicSubset
from schemas.submission import Sample, Task
from schemas.tables.documents import DetailRow
from schemas.topic import Topic
from tasks.corpus.details import details
from tasks.corpus.edges import edges
from tasks.paperqa.paper_library import PaperLibrary
from tasks.paperqa.runs import read_questions
from tasks.retrieval.backend import SearchBackend, open_backend
from tasks.retrieval.desk import ResearchDesk
from tasks.retrieval.documents import RowReader
from tasks.retrieval.retriever import NEVER, Allowed
from tasks.service.problems import Refused
from tasks.store.dataset import Dataset
from tasks.store.editions import Editions
from tasks.store.stage import AnyStage
from tasks.store.store import Request, Store
from tasks.submissions.topics import Asked, asked_topics

log = logging.getLogger(__name__)

FIELD = "abstract"
"""The field that is searched, where the edition has an index of it."""

LIBRARY = ("papers", "chunks", "bm25", "embeddings")


class Title(NamedTuple):
    """What a hit shows of a paper."""

    corpus_id: int
    title: str | None


class Means(NamedTuple):
    """What serving takes: device, memory and processors, and PDFs of questions' papers."""

    resources: Resources = Resources()
    pdfs: tuple[Path, ...] = ()


class ServedEdition:
    """One edition: its topics, and what its desks search and read. Everything is opened when it is first used.

    Args:
        store: Where its datasets are.
        manifest: The edition.
        means: What serving takes.
    """

    def __init__(self, store: Store, manifest: EditionManifest, means: Means) -> None:
        self._store = store
        self._means = means
        self._lock = Lock()
        self._allowed: dict[str, Allowed] = {}
        self._ready: set[Task] = set()
        self.manifest = manifest

    @cached_property
    def datasets(self) -> dict[str, Dataset]:
        """The edition's datasets by slot."""
        return {slot: self._store.open(ref) for slot, ref in self.manifest.slots.items()}

    @property
    def field(self) -> str | None:
        """The field that is searched; None: no field has an index of terms."""
        fields = [slot.partition("/")[2] for slot in self.manifest.slots if slot.startswith("bm25/")]
        return FIELD if FIELD in fields or not fields else min(fields)

    @property
    def engine(self) -> RetrieverName:
        """The engine used when none is named: hybrid where the field has embeddings."""
        return "hybrid" if f"embeddings/{self.field}" in self.manifest.slots else "bm25"

    def count(self, task: Task) -> int:
        """Returns the number of topics of a task; 0: the edition cannot be searched for it."""
        if not self._needs(task) <= self.manifest.slots.keys():
            return 0
        with suppress(UsageError):
            return len(self.asked(task))
        return 0

    def _needs(self, task: Task) -> set[str]:
        if task == "paperqa":
            return {f"airqa/{name}" for name in LIBRARY}
        return {"papers", f"bm25/{self.field}"}

    def asked(self, task: Task, sample: Sample | None = None) -> list[Asked]:
        """Returns the topics of a task.

        Raises:
            UsageError: The edition does not have the task.
        """
        subset = TopicSubset(sample_topics=sample.topics, seed=sample.seed) if sample else None
        return asked_topics(task, self.datasets, subset)

    def is_ready(self, task: Task) -> bool:
        """Whether the desks of a task can be used at once."""
        return task in self._ready

    def prepare(self, task: Task) -> None:
        """Opens what the desks of a task need.

        Raises:
            ArenaError: An index, its encoder or a library is missing.
        """
        if self.is_ready(task):
            return
        with self._lock:
            if task == "paperqa":
                self.library.search("a query", 1, "dense", self.library.passages_of(self.library.cards))  # opens it
            else:
                _ = self.backend, self._titles, self._details, self._surveys
            self._ready.add(task)

    @cached_property
    def backend(self) -> SearchBackend:
        """The engines, the leakage filter's facts and the citation graph."""
        slots = {name: f"{name}/{self.field}" for name in REQUIRED_DATASETS[self.engine]}
        found = {name: self.datasets[slot] for name, slot in slots.items()}
        found |= {name: self.datasets[name] for name in ("documents", "surveys")}
        found["edges"] = self._beside(edges)
        return open_backend(self.engine, found, self._means.resources)

    def _beside(self, stage: AnyStage) -> Dataset:
        """Returns a dataset of the edition; where the edition does not have it, it is made beside it."""
        if stage.name in self.datasets:
            return self.datasets[stage.name]
        inputs = {name: self.manifest.slots[slot] for name, slot in stage.inputs.items()}
        return self._store.open(self._store.build(Request(stage, stage.settings(), inputs), self._means.resources).ref)

    @cached_property
    def _titles(self) -> RowReader[Title]:
        return RowReader(self.datasets["documents"], Title)

    @cached_property
    def _details(self) -> RowReader[DetailRow]:
        return RowReader(self._beside(details), DetailRow)

    @cached_property
    def library(self) -> PaperLibrary:
        """The papers of questions."""
        parts = {name: self.datasets[f"airqa/{name}"] for name in LIBRARY}
        return PaperLibrary(**parts, pdfs=self._means.pdfs, resources=self._means.resources)

    @cached_property
    def _questions(self) -> Mapping[str, Question]:
        return {found.uuid: found for found in read_questions(self.datasets["airqa/questions"])}

    @cached_property
    def _surveys(self) -> Mapping[str, Topic]:
        return {asked.topic: asked.survey for asked in self.asked("discovery") if asked.survey}

    def question(self, topic: str) -> Question:
        """Returns a question as a system sees it."""
        return self._questions[topic]

    def allowed(self, topic: str) -> Allowed:
        """Returns the leakage filter of a topic, the same object each time: engines keep what they know of the last."""
        if topic not in self._allowed:
            self._allowed[topic] = Allowed.of(self.backend.catalogue, self._surveys[topic])
        return self._allowed[topic]

    def desk(self, topic: str) -> ResearchDesk:
        """Returns a new desk of a topic, which is for one call."""
        backend, survey = self.backend, self._surveys[topic]
        allowed = self.allowed(topic)
        return ResearchDesk(survey, backend.engines, backend.primary, allowed, backend.reader, backend.graph)

    def cards(self, ids: Sequence[int]) -> list[dict[str, Any]]:
        """Returns corpus_id, title and year of documents."""
        titles, years = self._titles.read(ids), self.years(ids)
        return [
            {"corpus_id": card.corpus_id, "title": card.title, "year": year}
            for card, year in zip(titles, years, strict=True)
        ]

    def documents(self, desk: ResearchDesk, ids: Sequence[int]) -> list[dict[str, Any]]:
        """Returns documents in the order of `ids`."""
        rows = zip(desk.read(ids), self._details.read(ids), self.years(ids), strict=True)
        return [
            {**read._asdict(), "year": year, "venue": detail.venue, "authors": list(detail.authors or ())}
            for read, detail, year in rows
        ]

    def years(self, ids: Sequence[int]) -> list[int | None]:
        """Returns the years of the dates that the leakage filter goes by; None: not known."""
        catalogue = self.backend.catalogue
        days = catalogue.days[catalogue.rows(np.array(ids, np.int64))].tolist()
        return [None if day == NEVER else (date(1970, 1, 1) + timedelta(days=day)).year for day in days]

    def close(self) -> None:
        """Removes temporary files."""
        if "library" in self.__dict__:
            self.library.close()


class ServedEditions:
    """The editions of a store. One is opened anew when its corpus, its indexes or its topics were replaced.

    Args:
        store: The store.
        means: What serving takes.
    """

    def __init__(self, store: Store, means: Means) -> None:
        self._store = store
        self._means = means
        self._opened: dict[str, ServedEdition] = {}
        self._lock = Lock()

    def find(self, name: str) -> ServedEdition:
        """Returns an edition.

        Raises:
            Refused: There is none.
        """
        editions = Editions(self._store)
        try:
            manifest = editions.load(name)
        except UsageError:
            raise Refused(404, "There is no such edition; see /v1/editions.") from None
        with self._lock:
            found = self._opened.get(name)
            if found is None or _corpus(found.manifest) != _corpus(manifest):
                found = self._opened[name] = ServedEdition(self._store, manifest, self._means)
            found.manifest = manifest
            return found

    def prepare_newest(self) -> None:
        """Opens, for surveys and for questions, the newest edition that has them, so that its first run does not wait.

        One that cannot be opened is told in the log; the others are served.
        """
        manifests = [found.manifest for found in self._readable()]
        newest = sorted(manifests, key=lambda manifest: (manifest.release, manifest.name), reverse=True)
        for task in ("discovery", "paperqa"):
            name = next((manifest.name for manifest in newest if self.opened(manifest.name).count(task)), None)
            try:
                if name is not None:
                    self.opened(name).prepare(task)
            except ArenaError as error:
                log.warning("edition %s: cannot be opened for %s: %s", name, task, error)

    def opened(self, name: str) -> ServedEdition:
        """Returns an edition as it was when it was last looked up."""
        return self._opened.get(name) or self.find(name)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yields every edition that can be read, in the form of `schemas.service.ServedEditionRow`."""
        for found in self._readable():
            with suppress(ArenaError):
                tasks = {task: {"topics": found.count(task)} for task in get_args(Task)}
                name, release, published = found.manifest.name, found.manifest.release, found.manifest.published
                yield {"name": name, "release": release, "published": published, "tasks": tasks}

    def _readable(self) -> Iterator[ServedEdition]:
        for name in Editions(self._store).names():
            with suppress(ArenaError):
                yield self.find(name)

    def close(self) -> None:
        """Removes temporary files."""
        for edition in self._opened.values():
            edition.close()


def _corpus(manifest: EditionManifest) -> dict[str, Any]:
    """Returns the slots that desks are opened from: all but what systems returned, and reports."""
    outputs = ("run/", "scores/", "trees/", "tree_scores/", "airqa/run/", "airqa/scores/", "report", "search/")
    return {slot: ref for slot, ref in manifest.slots.items() if not slot.startswith(outputs)}
