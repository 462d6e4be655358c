"""Contract of every registered baseline: a poisoned corpus cannot reach it, and its answers are valid runs.

The corpus holds three forbidden documents with the perfect text: a later paper, another survey, the survey itself.
"""

import hashlib
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from schemas.identifiers import CorpusId
from schemas.settings import EncoderSettings, Resources
from schemas.topic import Hit, Topic
from tasks.index.analysis import analyze
from tasks.index.bm25 import Bm25Index, Bm25Settings, bm25
from tasks.index.dense import DenseIndex, load_faiss
from tasks.retrieval.bm25 import Bm25Retriever
from tasks.retrieval.catalogue import Document, DocumentReader, load_catalogue
from tasks.retrieval.dense import DenseRetriever
from tasks.retrieval.desk import ResearchDesk
from tasks.retrieval.hybrid import HybridRetriever
from tasks.retrieval.retriever import Allowed, Query, Retriever
from tasks.retrieval.system import Kit, all_baselines
from tasks.stats.systems import answer_topic
from tasks.store.store import Request, Store
from tests.stats.conftest import publish_documents, publish_surveys

TITLE = "Seabird migration and tracking: a survey"
ABSTRACT = "We survey seabird migration and tracking of seabirds with light loggers."
ITSELF, OTHER_SURVEY, LATER = 1, 2, 3
FORBIDDEN = {ITSELF, OTHER_SURVEY, LATER}
WORDS = ["seabird", "migration", "tracking", "loggers", "light", "gulls", "terns", "ocean", "wind", "islands", "food"]
TOPIC = Topic(CorpusId(ITSELF), TITLE, date(2020, 1, 1))
CUTOFF = 10


def honest_documents() -> dict[int, tuple[str, str | None]]:
    generator = np.random.default_rng(3)
    texts = {n: [" ".join(generator.choice(WORDS, size)) for size in (4, 25)] for n in range(10, 60)}
    return {n: (title, abstract if n % 7 else None) for n, (title, abstract) in texts.items()}


class WordMeans:
    """An encoder without a model: a text is the mean of fixed random vectors of its words."""

    dimensions = 16
    settings = EncoderSettings(model="word-means")

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        means = np.stack([np.mean([self._word(word) for word in analyze(text) or [""]], axis=0) for text in texts])
        return (means / np.linalg.norm(means, axis=1, keepdims=True)).astype(np.float32)

    def _word(self, word: str) -> NDArray[np.float64]:
        seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "big")
        return np.random.default_rng(seed).standard_normal(self.dimensions)


def open_dense(texts: dict[int, tuple[str, str | None]]) -> DenseRetriever:
    encoder = WordMeans()
    index = load_faiss().IndexFlatIP(encoder.dimensions)
    index.add(encoder.encode_queries([" ".join(filter(None, parts)) for parts in texts.values()]))
    return DenseRetriever(DenseIndex(index, np.array(list(texts), np.int64)), encoder)  # pyright: ignore


class WatchedDesk(ResearchDesk):
    """A desk that remembers every document that it handed out, by whatever way."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.handed: set[int] = set()

    def search(self, query: Query, k: int, engine: str | None = None) -> list[Hit]:
        hits = super().search(query, k, engine)
        self.handed |= {int(hit.corpus_id) for hit in hits}
        return hits

    def read(self, ids: Sequence[int]) -> list[Document]:
        self.handed |= set(map(int, ids))
        return super().read(ids)

    def vectors(self, ids: Sequence[int]) -> NDArray[np.float32]:
        self.handed |= set(map(int, ids))
        return super().vectors(ids)


class Laboratory:
    """Engines over the poisoned corpus, opened once."""

    def __init__(self, folder: Path) -> None:
        store = Store(folder)
        texts = honest_documents() | dict.fromkeys(FORBIDDEN, (TITLE, ABSTRACT))
        documents = publish_documents(store, texts, late={ITSELF, LATER})
        surveys = publish_surveys(store, {ITSELF, OTHER_SURVEY})
        request = Request(bm25, Bm25Settings(field="title_abstract"), {"documents": documents})
        index = store.open(store.build(request, Resources(workers=1)).ref)
        self.catalogue = load_catalogue(store.open(documents), store.open(surveys))
        self.reader = DocumentReader(store.open(documents))
        lexical, dense = Bm25Retriever(Bm25Index(index)), open_dense(texts)
        hybrid = HybridRetriever([lexical, dense])
        self.engines: dict[str, Retriever] = {"bm25": lexical, "dense": dense, "hybrid": hybrid}

    def kit(self, retriever: str, topic: Topic) -> Kit:
        engines = self.engines if retriever == "hybrid" else {retriever: self.engines[retriever]}
        desk = WatchedDesk(topic, engines, retriever, Allowed.of(self.catalogue, topic), self.reader)
        return Kit(desk, CUTOFF, seed=1)


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> Laboratory:
    return Laboratory(tmp_path_factory.mktemp("poisoned"))


@pytest.mark.parametrize("retriever", ["bm25", "dense", "hybrid"])
def test_the_poison_is_what_an_unfiltered_search_finds_first(laboratory: Laboratory, retriever: str) -> None:
    found = laboratory.engines[retriever].search(TITLE.lower(), 3)
    assert {hit.corpus_id for hit in found.hits} == FORBIDDEN


@pytest.mark.parametrize("retriever", ["bm25", "dense", "hybrid"])
@pytest.mark.parametrize("name", sorted(all_baselines()))
def test_nothing_forbidden_reaches_a_baseline_or_leaves_it(name: str, retriever: str, laboratory: Laboratory) -> None:
    kit = laboratory.kit(retriever, TOPIC)
    answer = answer_topic(all_baselines()[name].system, TOPIC, kit)
    assert answer.outcome == "scored", answer.note
    assert len(answer.hits) == CUTOFF
    assert isinstance(kit.desk, WatchedDesk) and kit.desk.searches
    found = {hit.corpus_id for hit in answer.hits}
    assert found <= kit.desk.handed
    assert not kit.desk.handed & FORBIDDEN


@pytest.mark.parametrize("retriever", ["bm25", "dense", "hybrid"])
@pytest.mark.parametrize("name", sorted(all_baselines()))
def test_a_baseline_repeats_itself(name: str, retriever: str, laboratory: Laboratory) -> None:
    first, again = (
        answer_topic(all_baselines()[name].system, TOPIC, laboratory.kit(retriever, TOPIC)) for _ in range(2)
    )
    assert first == again


@pytest.mark.parametrize("title", ["", " ?! ", "zyx", "A survey"])
@pytest.mark.parametrize("retriever", ["bm25", "dense", "hybrid"])
@pytest.mark.parametrize("name", sorted(all_baselines()))
def test_an_odd_title_does_not_break_a_baseline(name: str, retriever: str, title: str, laboratory: Laboratory) -> None:
    """No text, no words, a word that no document holds, nothing but the genre."""
    topic = TOPIC._replace(title=title)
    answer = answer_topic(all_baselines()[name].system, topic, laboratory.kit(retriever, topic))
    assert answer.outcome in ("scored", "empty"), answer.note
