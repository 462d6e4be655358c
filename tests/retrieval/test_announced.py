"""Announced searches are answered together, and find what each finds by itself."""

from collections.abc import Sequence

import numpy as np
import pytest

from schemas.errors import BadInput
from tasks.index.dense import DenseIndex
from tasks.retrieval.announced import Announced
from tasks.retrieval.backend import SearchBackend
from tasks.retrieval.bm25 import Bm25Retriever
from tasks.retrieval.dense import DenseRetriever
from tasks.retrieval.hybrid import HybridRetriever
from tasks.retrieval.retriever import Allowed
from tests.retrieval.conftest import Axes, Collection


def dense(collection: Collection) -> DenseRetriever:
    return DenseRetriever(collection.dense, Axes())  # pyright: ignore[reportArgumentType]


def backend(collection: Collection, primary: str) -> SearchBackend:
    near, terms = dense(collection), Bm25Retriever(collection.bm25)
    engines = {"dense": near, "bm25": terms, "hybrid": HybridRetriever([terms, near])}
    return SearchBackend(engines, primary, collection.catalogue, collection.reader)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("primary", ["dense", "hybrid"])
@pytest.mark.parametrize("k", [3, 20])
def test_announced_titles_are_searched_once_with_equal_results(
    collection: Collection, monkeypatch: pytest.MonkeyPatch, primary: str, k: int
) -> None:
    titles = {topic: topic.title for topic in collection.topics}
    plain, together = backend(collection, primary), backend(collection, primary)
    expected = {}
    for topic in titles:
        desk = plain.desk(topic)
        expected[topic] = desk.search(topic.title, k), desk.searches
    sizes: list[int] = []
    many = DenseIndex.search_many

    def watch(self: DenseIndex, vectors: np.ndarray, n: int, kept: Sequence[np.ndarray]) -> object:
        sizes.append(len(vectors))
        return many(self, vectors, n, kept)

    monkeypatch.setattr(DenseIndex, "search_many", watch)
    together.announce(titles, k)
    for topic in reversed(titles):
        desk = together.desk(topic)
        assert (desk.search(topic.title, k), desk.searches) == expected[topic]
        assert desk.search(topic.title, k) == expected[topic][0]
    assert sizes == [len(titles)]


def test_an_answer_is_for_the_filter_that_was_announced(collection: Collection) -> None:
    topic = collection.topics[2]
    engine, plain = dense(collection), dense(collection)
    engine.announce([Announced("deep bird", 10, Allowed.of(collection.catalogue, topic))])
    some = Allowed.of(collection.catalogue, topic, collection.catalogue.ids[:40].tolist())
    assert engine.search("deep bird", 10, some) == plain.search("deep bird", 10, some)
    later = Allowed(collection.catalogue, topic.topic_id, collection.topics[1].horizon)
    assert engine.search("deep bird", 10, later) == plain.search("deep bird", 10, later)
    assert engine.search("deep bird", 5, later) == plain.search("deep bird", 5, later)


def test_a_search_that_fails_spoils_no_other(collection: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    encode = Axes.encode_queries

    def refuse(self: Axes, texts: Sequence[str]) -> np.ndarray:
        if "bad" in texts:
            raise BadInput("bad text")
        return encode(self, texts)

    monkeypatch.setattr(Axes, "encode_queries", refuse)
    allowed = [Allowed.of(collection.catalogue, topic) for topic in collection.topics[:2]]
    engine, plain = dense(collection), dense(collection)
    engine.announce([Announced("song", 5, allowed[0]), Announced("bad", 5, allowed[1])])
    assert engine.search("song", 5, allowed[0]) == plain.search("song", 5, allowed[0])
    with pytest.raises(BadInput, match="bad text"):
        engine.search("bad", 5, allowed[1])
