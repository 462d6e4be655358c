"""Feedback: what it finds beyond the title, and how it searches."""

from datetime import date
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from schemas.identifiers import CorpusId
from schemas.topic import Topic
from tasks.ranking.baseline import Kit
from tasks.ranking.baselines.feedback import SETTINGS, feedback
from tasks.ranking.baselines.title import title
from tasks.ranking.expansion.combination import smooth_scores
from tasks.retrieval.desk import ResearchDesk
from tests.ranking.baselines.conftest import RETRIEVERS, Shelf

TOPIC = Topic(CorpusId(999), "Seabird migration: a survey", date(2020, 1, 1))
RELATED = range(50, 60)
"""Papers that share no word with the title, and many with the papers that the title finds."""

NOISE = ["stock", "market", "price", "bond", "asset", "fund", "yield", "trade", "credit", "risk", "bank", "loan"]
JARGON = ["geolocator", "petrel", "shearwater", "flyway", "pelagic", "fledgling", "biologging", "tundra"]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    generator = np.random.default_rng(0)

    def words(vocabulary: list[str], size: int) -> str:
        return " ".join(generator.choice(vocabulary, size))

    texts: dict[int, tuple[str, str | None]] = {n: ("Seabird migration", words(JARGON, 12)) for n in range(1, 11)}
    texts |= {n: (words(JARGON, 4), words(JARGON, 12)) for n in RELATED}
    texts |= {n: (words(NOISE, 4), words(NOISE, 12)) for n in range(100, 400)}
    return Shelf(tmp_path_factory.mktemp("shelf"), texts)


def smooth(scores: NDArray[np.float64], vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    similarity = np.maximum(vectors @ vectors.T, 0)
    return smooth_scores(scores, similarity, SETTINGS.neighbours, SETTINGS.smoothing)


def kit(desk: ResearchDesk, cutoff: int = 20) -> Kit:
    return Kit(desk, cutoff, seed=0)


@pytest.mark.parametrize("retriever", RETRIEVERS)
def test_it_finds_papers_that_only_their_neighbours_share_words_with(shelf: Shelf, retriever: str) -> None:
    found = feedback(TOPIC, kit(shelf.desk(TOPIC, retriever)))
    assert {hit.corpus_id for hit in found.hits} == {*range(1, 11), *RELATED}
    if retriever == "bm25":
        by_title = title(TOPIC, kit(shelf.desk(TOPIC, retriever)))
        assert {hit.corpus_id for hit in by_title.hits} == set(range(1, 11))


@pytest.mark.parametrize(
    ("retriever", "engines"),
    [("bm25", ["bm25", "bm25"]), ("dense", ["dense", "dense"]), ("hybrid", ["bm25", "dense", "bm25", "dense"])],
)
def test_it_searches_the_title_and_then_its_expansion(shelf: Shelf, retriever: str, engines: list[str]) -> None:
    desk = shelf.desk(TOPIC, retriever)
    feedback(TOPIC, kit(desk))
    assert [search.retriever for search in desk.searches] == engines
    half = len(engines) // 2
    assert {search.query for search in desk.searches[:half]} == {"seabird migration: a survey"}
    assert "seabird migration: a survey" not in {search.query for search in desk.searches[half:]}
    assert {search.k for search in desk.searches} == {SETTINGS.depth}


def test_the_expanded_query_weighs_title_and_seeds_as_set(shelf: Shelf) -> None:
    desk = shelf.desk(TOPIC, "bm25")
    feedback(TOPIC, kit(desk))
    weights = {
        term: float(weight) for term, _, weight in (part.partition("^") for part in desk.searches[1].query.split())
    }
    assert sum(weights.values()) == pytest.approx(1, abs=1e-3)
    assert weights["survey"] == weights["a"] == pytest.approx(SETTINGS.own_terms / 4)
    assert weights["seabird"] > SETTINGS.own_terms / 4
    assert set(weights) == {"seabird", "migration", "a", "survey", *JARGON} and len(weights) <= SETTINGS.terms + 4


def test_a_deeper_cutoff_deepens_the_lists(shelf: Shelf) -> None:
    desk = shelf.desk(TOPIC, "dense")
    found = feedback(TOPIC, kit(desk, SETTINGS.depth + 100))
    assert {search.k for search in desk.searches} == {SETTINGS.depth + 100}
    assert len(found.hits) == 320


def test_a_candidate_among_good_ones_rises_and_an_isolated_one_sinks() -> None:
    """30 papers in one place with score 1, one more there with 0.4, and one elsewhere with 0.5."""
    vectors = np.zeros((32, 3), np.float32)
    vectors[:31, 0] = vectors[31, 1] = 1
    found = smooth(np.array([1.0] * 30 + [0.4, 0.5]), vectors)
    assert found[30] == pytest.approx((1 - SETTINGS.smoothing) * 0.4 + SETTINGS.smoothing)
    assert found[31] == pytest.approx((1 - SETTINGS.smoothing) * 0.5)


@given(st.integers(2, 40), st.integers(0, 2**32 - 1))
def test_smoothing_knows_no_order_and_keeps_equal_scores(n: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    vectors = np.abs(generator.standard_normal((n, 4))).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    scores, order = generator.random(n), generator.permutation(n)
    smoothed = smooth(scores, vectors)
    assert smooth(scores[order], vectors[order]) == pytest.approx(smoothed[order], abs=1e-5)
    assert smooth(np.full(n, 0.3), vectors) == pytest.approx(np.full(n, 0.3), abs=1e-6)


@pytest.mark.parametrize("retriever", RETRIEVERS)
def test_one_document_is_enough(tmp_path: Path, retriever: str) -> None:
    shelf = Shelf(tmp_path, {5: ("Seabird", None)})
    found = feedback(TOPIC, kit(shelf.desk(TOPIC, retriever)))
    assert [hit.corpus_id for hit in found.hits] == [5]


def test_a_title_that_finds_nothing_says_so(shelf: Shelf) -> None:
    found = feedback(TOPIC._replace(title="zyx"), kit(shelf.desk(TOPIC, "bm25")))
    assert found.hits == [] and found.note == "the title finds nothing"
