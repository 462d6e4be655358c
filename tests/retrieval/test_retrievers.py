"""The three engines: which queries they accept, and how hybrid fuses."""

import dataclasses
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from schemas.errors import BadInput
from schemas.settings import EncoderSettings
from tasks.index.dense import DenseIndex
from tasks.index.encoder import Encoder
from tasks.retrieval.bm25 import Bm25Retriever
from tasks.retrieval.dense import DenseRetriever
from tasks.retrieval.fusion import reciprocal_rank_fusion
from tasks.retrieval.hybrid import HybridRetriever
from tasks.retrieval.retriever import Allowed, Catalogue, Trace, Vector, WeightedTerms
from tests.corpus.conftest import Corpus
from tests.index.conftest import give_embeddings, tiny_model  # noqa: F401
from tests.retrieval.conftest import DIMENSIONS, Axes, Collection

ONES = Vector(np.ones(DIMENSIONS, np.float32))


def engines(collection: Collection) -> tuple[Bm25Retriever, DenseRetriever]:
    return Bm25Retriever(collection.bm25), DenseRetriever(collection.dense, Axes())


def test_text_is_never_parsed_as_query_syntax(collection: Collection) -> None:
    bm25, _ = engines(collection)
    plain = bm25.search("deep bird", 150).hits
    for query in ('+deep -"bird"', "Deep, (bird)*?~", "deep && !bird\\"):
        assert bm25.search(query, 150).hits == plain
    assert bm25.search("title:deep", 150).hits == bm25.search("title deep", 150).hits
    assert bm25.search("deep deep bird", 150) == bm25.search(WeightedTerms({"deep": 2.0, "bird": 1.0}), 150)
    assert bm25.search("bird deep", 150).hits == plain
    for nothing in ("", " .!? ", "unheard"):
        assert bm25.search(nothing, 5).hits == []
    assert bm25.search(WeightedTerms({}), 5).hits == []


def test_engines_refuse_queries_they_do_not_accept(collection: Collection) -> None:
    bm25, dense = engines(collection)
    hybrid = HybridRetriever([bm25, dense])
    terms = WeightedTerms({"deep": 1.0})
    for engine, query in ((bm25, ONES), (dense, terms), (hybrid, terms), (hybrid, ONES)):
        with pytest.raises(BadInput, match=f"{engine.name} accepts text"):
            engine.search(query, 5)
    for weight in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(BadInput, match="'deep'"):
            bm25.search(WeightedTerms({"deep": weight}), 5)
    for engine in (bm25, dense, hybrid):
        with pytest.raises(BadInput, match="at least 1"):
            engine.search("deep", 0)


def test_dense_accepts_texts_and_vectors(collection: Collection) -> None:
    _, dense = engines(collection)
    vector = dense.embed(["deep bird songs"])[0]
    assert dense.search("deep bird songs", 20) == dense.search(Vector(3 * vector), 20)
    assert dense.search(" \n", 20) == ([], Trace())
    hits, trace = dense.search("deep", 200)
    assert len(hits) == trace.depth == collection.dense.size
    assert dense.vectors([hits[3].corpus_id]).shape == (1, DIMENSIONS)


def test_topics_that_begin_together_order_the_documents_once(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each order takes memory for every document: 32 at once took more than the index."""
    _, dense = engines(collection)
    catalogue = dataclasses.replace(collection.catalogue)
    ordered: list[int] = []

    def rows(self: Catalogue, ids: np.ndarray) -> np.ndarray:
        ordered.append(len(ids))
        time.sleep(0.05)  # the others begin meanwhile
        return np.searchsorted(self.ids, ids)

    monkeypatch.setattr(Catalogue, "rows", rows)
    filters = [Allowed.of(catalogue, topic) for topic in collection.topics]
    with ThreadPoolExecutor(len(filters)) as threads:
        list(threads.map(lambda allowed: dense.search("deep", 5, allowed), filters))
    assert ordered == [dense._index.size]


def test_a_real_encoder_finds_the_document_with_its_text(tmp_path: Path, tiny_model: Path) -> None:  # noqa: F811
    encoder = Encoder(EncoderSettings(model=str(tiny_model)))
    texts = ["deep bird song", "graph neural network", "sparse image of the model"]
    vectors = dict(enumerate(encoder.encode(texts), 1))
    corpus = Corpus(tmp_path)
    index = DenseIndex.open(corpus.store.open(give_embeddings(corpus, vectors)))
    dense = DenseRetriever(index, encoder)
    for number, text in enumerate(texts, 1):
        best = dense.search(text, 1).hits[0]
        assert best.corpus_id == number
        assert best.score == pytest.approx(1, abs=1e-3)
    with pytest.raises(BadInput, match="the index has 16"):
        DenseRetriever(index, Axes())


def test_hybrid_fuses_the_filtered_lists(collection: Collection) -> None:
    bm25, dense = engines(collection)
    for topic in collection.topics:
        allowed = Allowed.of(collection.catalogue, topic)
        lists = [engine.search(topic.title, 40, allowed) for engine in (bm25, dense)]
        fused = reciprocal_rank_fusion([[hit.corpus_id for hit in found.hits] for found in lists])
        found = HybridRetriever([bm25, dense], depth=40).search(topic.title, 10, allowed)
        assert [hit.corpus_id for hit in found.hits] == [corpus_id for corpus_id, _ in fused][:10]
        assert [hit.score for hit in found.hits] == [-float(rank) for rank in range(1, len(found.hits) + 1)]
        assert found.trace.dropped_date == sum(part.trace.dropped_date for part in lists)
        assert found.trace.rounds == max(part.trace.rounds for part in lists)


def test_hybrid_fuses_longer_lists_for_a_larger_k(collection: Collection) -> None:
    hybrid = HybridRetriever(engines(collection), depth=5)
    allowed = Allowed(collection.catalogue, 0, date(2100, 1, 1))
    assert len(hybrid.search("deep bird", 60, allowed).hits) == 60
    assert hybrid.search("deep bird", 5, allowed).hits[:3] == hybrid.search("deep bird", 3, allowed).hits


def test_a_search_limited_to_some_documents_ranks_them_as_in_the_whole_corpus(collection: Collection) -> None:
    topic = collection.topics[0]
    only = set(collection.catalogue.ids[::3].tolist())
    for engine in engines(collection):
        query = "deep bird" if engine.name == "bm25" else ONES
        whole = engine.search(query, 150, Allowed.of(collection.catalogue, topic)).hits
        confined = engine.search(query, 150, Allowed.of(collection.catalogue, topic, only)).hits
        assert confined == [hit for hit in whole if hit.corpus_id in only] != []
