"""A small collection with real engines: BM25 over an index built here, FAISS over vectors made without a model."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from schemas.settings import EncoderSettings, Resources
from schemas.tables.citation_records import CITATION_RECORDS
from schemas.topic import Topic
from tasks.corpus.edges import edges
from tasks.index.analysis import analyze
from tasks.index.bm25 import Bm25Index, Bm25Settings, bm25
from tasks.index.dense import DenseIndex
from tasks.index.lsa import LsaSettings, LsaSpace, lsa
from tasks.index.vectors import StoredVectors
from tasks.ranking.baseline import Kit
from tasks.retrieval.bm25 import Bm25Retriever
from tasks.retrieval.dense import DenseRetriever
from tasks.retrieval.desk import ResearchDesk
from tasks.retrieval.documents import DocumentReader, load_catalogue
from tasks.retrieval.graph import CitationGraph
from tasks.retrieval.hybrid import HybridRetriever
from tasks.retrieval.lsa import LsaRetriever
from tasks.retrieval.retriever import Allowed, Retriever
from tasks.store.store import Request
from tests.corpus.conftest import Corpus
from tests.demo.standin.asking import ScriptedModel, asker_of, door_to
from tests.llm.scripted_server import ScriptedServer
from tests.published import publish_documents, publish_surveys

RETRIEVERS = ("bm25", "dense", "hybrid")
LATENT = ("lsa", "hybrid_lsa")
"""Retrievers with a latent semantic index."""

Texts = Mapping[int, tuple[str, str | None]]


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


class Shelf:
    """Documents (title, abstract) by id with every engine over title and abstract.

    Those in `late` are published on 2020-01-01, the others a year before. Each pair of `cites` is a citing and a cited
    paper.
    """

    def __init__(
        self,
        folder: Path,
        texts: Texts,
        late: Iterable[int] = (),
        surveys: Iterable[int] = (),
        cites: Iterable[tuple[int, int]] = (),
    ) -> None:
        corpus = Corpus(folder)
        store = corpus.store
        documents = publish_documents(store, dict(texts), late=late)
        inputs = {"documents": documents}
        requests = (
            Request(bm25, Bm25Settings(field="title_abstract"), inputs),
            Request(lsa, LsaSettings(field="title_abstract", dimensions=32), inputs),
        )
        index, latent = (store.open(store.build(request, Resources(workers=1)).ref) for request in requests)
        self.catalogue = load_catalogue(store.open(documents), store.open(publish_surveys(store, surveys)))
        self.reader = DocumentReader(store.open(documents))
        records = [
            {"citation_id": place, "citing_corpus_id": citing, "cited_corpus_id": cited}
            for place, (citing, cited) in enumerate(cites)
        ]
        cited = corpus.given("citation_records", {CITATION_RECORDS: records})
        made = corpus.build(edges, documents=documents, citation_records=cited)
        self.graph = CitationGraph(made, self.catalogue)
        lexical, dense = Bm25Retriever(Bm25Index(index)), _open_dense(texts)
        space = LsaRetriever(DenseIndex.open(latent, device="cpu"), LsaSpace.open(latent))
        self.engines: dict[str, Retriever] = {
            "bm25": lexical,
            "dense": dense,
            "hybrid": HybridRetriever([lexical, dense]),
            "lsa": space,
            "hybrid_lsa": HybridRetriever([lexical, dense, space], name="hybrid_lsa"),
        }

    def desk(self, topic: Topic, retriever: str, kind: type[ResearchDesk] = ResearchDesk) -> ResearchDesk:
        parts = {"hybrid": ("bm25", "dense"), "hybrid_lsa": ("bm25", "dense", "lsa")}.get(retriever, ())
        engines = {name: self.engines[name] for name in (*parts, retriever)}
        return kind(topic, engines, retriever, Allowed.of(self.catalogue, topic), self.reader, self.graph)


def _open_dense(texts: Texts) -> DenseRetriever:
    encoder = WordMeans()
    vectors = encoder.encode_queries([" ".join(filter(None, parts)) for parts in texts.values()])
    index = StoredVectors([vectors.astype(np.float16)])
    return DenseRetriever(DenseIndex(index, np.array(list(texts), np.int64)), encoder)  # pyright: ignore


@pytest.fixture
def model(server: ScriptedServer) -> ScriptedModel:
    """Plays the language model that `kit` asks."""
    return ScriptedModel(server)


@pytest.fixture
def kit(server: ScriptedServer) -> Iterator[Callable[..., Kit]]:
    """Kits whose asker asks the scripted model."""
    with door_to(server.url) as door:
        yield lambda desk, cutoff=20: Kit(desk, cutoff, seed=0, asker=asker_of(door))
