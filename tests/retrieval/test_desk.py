"""The research desk: which documents a system can reach, what is refused, and the record of searches."""

import numpy as np
import pyarrow as pa
import pytest

from schemas.errors import BadInput
from schemas.tables.runs import SEARCHES
from schemas.topic import Hit, Topic
from tasks.retrieval.bm25 import Bm25Retriever
from tasks.retrieval.dense import DenseRetriever
from tasks.retrieval.desk import ResearchDesk
from tasks.retrieval.hybrid import HybridRetriever
from tasks.retrieval.retriever import Allowed, Found, Query, Retriever, Trace, Vector, WeightedTerms
from tests.retrieval.conftest import DIMENSIONS, Axes, Collection


def desk_for(collection: Collection, topic: Topic, **others: Retriever) -> ResearchDesk:
    bm25, dense = Bm25Retriever(collection.bm25), DenseRetriever(collection.dense, Axes())
    engines = {"bm25": bm25, "dense": dense, "hybrid": HybridRetriever([bm25, dense]), **others}
    return ResearchDesk(topic, engines, "hybrid", Allowed.of(collection.catalogue, topic), collection.reader)


def test_forbidden_documents_are_never_found(collection: Collection) -> None:
    catalogue = collection.catalogue
    for topic in collection.topics:
        desk = desk_for(collection, topic)
        seen: set[int] = set()
        for engine in desk.engines:
            seen |= {hit.corpus_id for hit in desk.search("deep bird survey of the graph", 150, engine)}
        horizon = np.datetime64(topic.horizon, "D").astype(int)
        legal = catalogue.ids[~catalogue.surveys & (catalogue.days < horizon)]
        assert seen <= set(legal.tolist()) - {topic.topic_id}
        assert seen or topic is collection.topics[-1]


def test_every_search_is_recorded(collection: Collection) -> None:
    topic = collection.topics[0]
    desk = desk_for(collection, topic)
    first = desk.search("Deep bird", 7)
    desk.search(WeightedTerms({"song": 0.5, "bird": 2}), 3, "bm25")
    desk.search(Vector(np.ones(DIMENSIONS, np.float32)), 4, "dense")
    desk.search("", 4, "bm25")
    table = SEARCHES.conform(pa.Table.from_pylist([row._asdict() for row in desk.searches]))
    assert table["position"].to_pylist() == [0, 1, 2, 3]
    assert set(table["topic_id"].to_pylist()) == {topic.topic_id}
    assert table["retriever"].to_pylist() == ["hybrid", "bm25", "dense", "bm25"]
    assert table["query"].to_pylist()[:2] == ["Deep bird", "bird^2 song^0.5"]
    assert table["query"][2].as_py().startswith("vector ")
    assert table["k"].to_pylist() == [7, 3, 4, 4]
    assert table["returned"].to_pylist() == [len(first), 3, 4, 0]
    dense = desk.searches[2]
    assert dense.depth == collection.dense.size
    assert dense.dropped_survey + dense.dropped_date > 0


def test_only_allowed_documents_can_be_read(collection: Collection) -> None:
    topic = collection.topics[0]
    desk = desk_for(collection, topic)
    ids = [hit.corpus_id for hit in desk.search("bird song", 5)]
    assert [document.corpus_id for document in desk.read(ids)] == ids
    assert [document.abstract for document in desk.read(ids)] == [f"Abstract of {i}" for i in ids]
    assert desk.vectors(ids).shape == (5, DIMENSIONS)
    catalogue = collection.catalogue
    horizon = np.datetime64(topic.horizon, "D").astype(int)
    survey = int(catalogue.ids[catalogue.surveys & (catalogue.ids != topic.topic_id)][0])
    late = int(catalogue.ids[~catalogue.surveys & (catalogue.days >= horizon)][0])
    for forbidden, reason in (
        (topic.topic_id, "itself"),
        (survey, "survey"),
        (late, "late"),
        (987_654, "not in the corpus"),
    ):
        for refuse in (desk.read, desk.vectors):
            with pytest.raises(BadInput, match=reason):
                refuse([ids[0], forbidden])


def test_a_leaking_engine_is_caught(collection: Collection) -> None:
    survey = int(collection.catalogue.ids[collection.catalogue.surveys][1])

    class Leak:
        name = "leak"

        def search(self, query: Query, k: int, allowed: Allowed | None = None) -> Found:
            return Found([Hit(survey, 1.0)], Trace())

    desk = desk_for(collection, collection.topics[0], leak=Leak())
    with pytest.raises(BadInput, match=f"document {survey} must not be seen"):
        desk.search("bird", 5, "leak")
    with pytest.raises(BadInput, match="no engine is named 'google'"):
        desk.search("bird", 5, "google")
    assert desk.searches == ()


def test_index_statistics_are_available_to_feedback_systems(collection: Collection) -> None:
    desk = desk_for(collection, collection.topics[0])
    assert desk.terms("Bird-song, bird") == ["bird", "song", "bird"]
    assert desk.n_documents == collection.bm25.size
    assert 0 < desk.document_frequency("bird") == len(collection.bm25.search({"bird": 1.0}, 150).ids)
    np.testing.assert_array_equal(desk.embed(["bird song"]), Axes().encode_queries(["bird song"]))
    assert desk.has_terms
    assert desk.has_vectors


def test_the_error_for_a_missing_engine_says_which_to_add(collection: Collection) -> None:
    topic = collection.topics[0]
    allowed = Allowed.of(collection.catalogue, topic)
    terms_only = ResearchDesk(topic, {"bm25": Bm25Retriever(collection.bm25)}, "bm25", allowed, collection.reader)
    assert not terms_only.has_vectors
    for call in (lambda: terms_only.embed(["bird"]), lambda: terms_only.vectors([])):
        with pytest.raises(BadInput, match="add dense"):
            call()
    dense = DenseRetriever(collection.dense, Axes())
    vectors_only = ResearchDesk(topic, {"dense": dense}, "dense", allowed, collection.reader)
    assert not vectors_only.has_terms
    for call in (lambda: vectors_only.terms("bird"), lambda: vectors_only.n_documents):
        with pytest.raises(BadInput, match="add bm25"):
            call()


def test_a_desk_needs_the_filter_of_its_own_topic(collection: Collection) -> None:
    first, second = collection.topics[:2]
    engines = {"bm25": Bm25Retriever(collection.bm25)}
    with pytest.raises(BadInput, match=f"that of topic {second.topic_id}"):
        ResearchDesk(first, engines, "bm25", Allowed.of(collection.catalogue, second), collection.reader)
    with pytest.raises(BadInput, match="no engine is named 'dense'"):
        ResearchDesk(first, engines, "dense", Allowed.of(collection.catalogue, first), collection.reader)
