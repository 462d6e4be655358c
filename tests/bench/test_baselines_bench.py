"""CPU seconds a topic of every baseline without a model, over corpora of ARENA_BENCH_DOCUMENTS random texts."""

import os
import time
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from schemas.identifiers import CorpusId
from schemas.settings import EncoderSettings, Resources
from schemas.tables.citation_records import CITATION_RECORDS
from schemas.topic import Topic
from tasks.corpus.edges import EdgeSettings, edges
from tasks.index.bm25 import Bm25Index, Bm25Settings, bm25
from tasks.index.dense import DenseIndex
from tasks.index.embeddings import EmbeddingSettings, embeddings, open_encoder
from tasks.index.lsa import LsaSettings, LsaSpace, lsa
from tasks.index.toy_model import TOY
from tasks.ranking.answers import answer_topic
from tasks.ranking.baseline import Kit, all_baselines
from tasks.retrieval.backend import SearchBackend
from tasks.retrieval.bm25 import Bm25Retriever
from tasks.retrieval.dense import DenseRetriever
from tasks.retrieval.documents import DocumentReader, load_catalogue
from tasks.retrieval.graph import CitationGraph
from tasks.retrieval.hybrid import HybridRetriever
from tasks.retrieval.lsa import LsaRetriever
from tasks.store.store import Request, Store
from tests.published import publish, publish_documents, publish_surveys

pytestmark = pytest.mark.bench

SIZES = [int(size) for size in os.environ.get("ARENA_BENCH_DOCUMENTS", "50000,300000").split(",")]
VOCABULARY, LENGTH, CITED, TOPICS = 30_000, 120, 12, 12
LIMIT, DEAR = 1.0, {"expanded_diverse": 2.0}
"""CPU seconds a topic; `expanded_diverse` searches every index once more for each of up to five groups of hits."""


def random_texts(size: int) -> dict[int, tuple[str, str | None]]:
    """Returns titles and abstracts of words whose frequencies fall as in texts (Zipf)."""
    rng = np.random.default_rng(1)
    words = np.array([f"w{n}" for n in range(VOCABULARY)])
    shares = 1 / np.arange(10, VOCABULARY + 10)
    texts: dict[int, tuple[str, str | None]] = {}
    for start in range(0, size, 10_000):
        drawn = words[rng.choice(VOCABULARY, (min(10_000, size - start), LENGTH), p=shares / shares.sum())]
        texts |= {start + n + 1: (" ".join(row[:8]), " ".join(row[8:])) for n, row in enumerate(drawn)}
    return texts


@pytest.fixture(scope="module", params=SIZES)
def backend(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> SearchBackend:
    store, size = Store(Path(tmp_path_factory.mktemp("bench"))), int(request.param)
    documents = publish_documents(store, random_texts(size))
    rng = np.random.default_rng(2)
    pairs = np.stack([np.repeat(np.arange(1, size + 1), CITED), rng.integers(1, size + 1, size * CITED)], axis=1)
    records = [
        {"citation_id": n, "citing_corpus_id": citing, "cited_corpus_id": cited}
        for n, (citing, cited) in enumerate(pairs.tolist())
    ]
    given = {"documents": documents, "citation_records": publish(store, "given", {"part": (CITATION_RECORDS, records)})}
    only = {"documents": documents}
    resources = Resources(workers=2, device="cpu")
    made = {
        stage.name: store.open(store.build(Request(stage, settings, inputs), resources).ref)
        for stage, settings, inputs in (
            (bm25, Bm25Settings(field="abstract"), only),
            (embeddings, EmbeddingSettings(field="abstract", encoder=EncoderSettings(model=TOY)), only),
            (lsa, LsaSettings(field="abstract"), only),
            (edges, EdgeSettings(), given),
        )
    }
    dense = DenseRetriever(DenseIndex.open(made["embeddings"], device="cpu"), open_encoder(made["embeddings"], "cpu"))
    space = LsaRetriever(DenseIndex.open(made["lsa"], device="cpu"), LsaSpace.open(made["lsa"]))
    lexical = Bm25Retriever(Bm25Index(made["bm25"]))
    catalogue = load_catalogue(store.open(documents), store.open(publish_surveys(store, [])))
    engines = {"bm25": lexical, "dense": dense, "lsa": space}
    engines["hybrid_lsa"] = HybridRetriever([lexical, dense, space], name="hybrid_lsa")
    reader = DocumentReader(store.open(documents))
    return SearchBackend(engines, "hybrid_lsa", catalogue, reader, CitationGraph(made["edges"], catalogue))


@pytest.mark.parametrize("name", [name for name, found in all_baselines().items() if not found.asks])
def test_a_topic_takes_less_than_a_second_of_cpu(name: str, backend: SearchBackend, record_property) -> None:
    rng = np.random.default_rng(3)
    titles = [" ".join(f"w{n}" for n in rng.integers(0, 3_000, 6)) for _ in range(TOPICS)]
    topics = [Topic(CorpusId(-n - 1), title, date(2020, 1, 1)) for n, title in enumerate(titles)]
    system = all_baselines()[name].system
    answer_topic(system, topics[0], Kit(backend.desk(topics[0]), 100, seed=1))  # reads pages that all topics share
    start = time.process_time()
    for topic in topics:
        assert answer_topic(system, topic, Kit(backend.desk(topic), 100, seed=1)).outcome == "scored"
    seconds = (time.process_time() - start) / len(topics)
    record_property("cpu_seconds_a_topic", round(seconds, 3))
    assert seconds < DEAR.get(name, LIMIT)
