"""The research desk: which documents a system can reach, what is refused, and the record of searches."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from schemas.errors import BadInput
from schemas.tables.runs import SEARCHES, STEPS
from schemas.topic import Hit, Topic
from tasks.retrieval.bm25 import Bm25Retriever
from tasks.retrieval.dense import DenseRetriever
from tasks.retrieval.desk import ResearchDesk
from tasks.retrieval.graph import CitationGraph
from tasks.retrieval.hybrid import HybridRetriever
from tasks.retrieval.retriever import Allowed, Found, Query, Retriever, Trace, Vector, WeightedTerms
from tasks.retrieval.trajectory import MOST_PAPERS, MOST_STEPS
from tests.corpus.conftest import Corpus
from tests.corpus.test_edges import build as build_edges
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


def test_a_trajectory_holds_what_was_asked_in_order_within_its_bounds(collection: Collection, tmp_path: Path) -> None:
    topic = collection.topics[0]
    graph, _ = cite_in_a_circle(collection, tmp_path)
    allowed = Allowed.of(collection.catalogue, topic)
    desk = ResearchDesk(topic, {"bm25": Bm25Retriever(collection.bm25)}, "bm25", allowed, collection.reader, graph)
    found = [int(hit.corpus_id) for hit in desk.search("bird song of the deep", 12)]
    desk.read(found[:2])
    cited = desk.references(found[0]).papers
    assert [step[1:] for step in desk.steps] == [
        (0, 0, found[:MOST_PAPERS], len(found)),
        (1, None, found[:2], 2),
        (2, 1, cited[:MOST_PAPERS], len(cited)),
    ]
    for _ in range(MOST_STEPS):
        desk.search("bird", 1)
    desk.read(found[:1])
    assert [step.search for step in desk.steps][-2:] == [MOST_STEPS - 1, None], "readings have a bound of their own"
    assert len(desk.searches) == MOST_STEPS + 2, "all searches are recorded"
    assert STEPS.conform(pa.Table.from_pylist([step._asdict() for step in desk.steps])).num_rows == MOST_STEPS + 2


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


def cite_in_a_circle(collection: Collection, root: Path) -> tuple[CitationGraph, list[int]]:
    """A graph in which each document cites the ten before it, in a circle by id."""
    ids = collection.catalogue.ids.tolist()
    pairs = [(ids[place], ids[place - step]) for place in range(len(ids)) for step in range(1, 11)]
    return CitationGraph(build_edges(Corpus(root), ids, pairs), collection.catalogue), ids


def test_lookups_of_citations_come_in_pages_and_are_recorded(collection: Collection, tmp_path: Path) -> None:
    graph, ids = cite_in_a_circle(collection, tmp_path)
    topic = collection.topics[0]
    allowed = Allowed.of(collection.catalogue, topic)
    desk = ResearchDesk(topic, {"bm25": Bm25Retriever(collection.bm25)}, "bm25", allowed, collection.reader, graph)
    visible = set(collection.catalogue.ids[allowed.judge(np.arange(len(ids))).kept].tolist())
    found = {place: sorted({ids[place - step] for step in range(1, 11)} & visible) for place in range(len(ids))}
    place = next(place for place, i in enumerate(ids) if i in visible and len(found[place]) > 2)
    expected = found[place]
    assert 3 <= len(expected) < 10
    assert desk.has_graph
    assert desk.references(ids[place]) == (expected, len(expected))
    assert desk.references(ids[place], k=2, offset=1) == (expected[1:3], len(expected))
    assert desk.references(ids[place], k=2, offset=99) == ([], len(expected))
    citing = sorted({ids[(place + step) % len(ids)] for step in range(1, 11)} & visible)
    assert desk.citations(ids[place], k=1) == (citing[:1], len(citing))
    rows = [(row.query, row.retriever, row.k, row.returned, row.depth) for row in desk.searches]
    assert rows == [
        (f"{ids[place]}", "references", 100, len(expected), 10),
        (f"{ids[place]} from 1", "references", 2, 2, 10),
        (f"{ids[place]} from 99", "references", 2, 0, 10),
        (f"{ids[place]}", "citations", 1, 1, 10),
    ]
    first = desk.searches[0]
    assert first.dropped_survey + first.dropped_date + first.dropped_self == 10 - len(expected)


def test_lookups_of_forbidden_documents_and_wrong_pages_are_refused(collection: Collection, tmp_path: Path) -> None:
    graph, ids = cite_in_a_circle(collection, tmp_path)
    topic = collection.topics[0]
    allowed = Allowed.of(collection.catalogue, topic)
    desk = ResearchDesk(topic, {"bm25": Bm25Retriever(collection.bm25)}, "bm25", allowed, collection.reader, graph)
    kept = allowed.judge(np.arange(len(ids))).kept
    seen, hidden = ids[int(kept.argmax())], ids[int(kept.argmin())]
    for refuse, message in (
        (lambda: desk.references(hidden), "must not be seen"),
        (lambda: desk.citations(987_654), "not in the corpus"),
        (lambda: desk.citations(seen, k=0), "at least 1"),
        (lambda: desk.citations(seen, offset=-1), "at least 0"),
        (lambda: desk_for(collection, topic).references(seen), "graph=True"),
    ):
        with pytest.raises(BadInput, match=message):
            refuse()
    assert desk.searches == ()


def test_a_graph_of_other_documents_is_refused(collection: Collection, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="arena rerun edges"):
        CitationGraph(build_edges(Corpus(tmp_path), [1, 2], [(1, 2)]), collection.catalogue)
