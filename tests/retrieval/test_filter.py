"""The leakage filter: filtering before, during and after the search gives the same result."""

from datetime import date, timedelta
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import BadInput
from schemas.topic import Hit
from tasks.index.encoder import unit_rows
from tasks.index.ranked import Ranked
from tasks.retrieval.backoff import BackOff, search_with_backoff
from tasks.retrieval.bm25 import Bm25Retriever
from tasks.retrieval.dense import DenseRetriever
from tasks.retrieval.retriever import NEVER, Allowed, Catalogue, Query, Trace, Vector, WeightedTerms
from tests.index.conftest import WORDS
from tests.retrieval.conftest import DIMENSIONS, Axes, Collection

FACTORS = st.sampled_from([2, 4, 10])
EPOCH = date(1970, 1, 1)


def passes(allowed: Allowed, corpus_id: int) -> bool:
    """The rule, written out for one document."""
    row = allowed.catalogue.ids.tolist().index(corpus_id)
    published = int(allowed.catalogue.days[row]) < (allowed.horizon - EPOCH).days
    return published and corpus_id != allowed.topic_id and not allowed.catalogue.surveys[row]


def brute_force(ranking: Ranked, allowed: Allowed, k: int) -> list[Hit]:
    pairs = zip(ranking.ids.tolist(), ranking.scores.tolist(), strict=True)
    return [Hit(i, score) for i, score in pairs if passes(allowed, i)][:k]


@st.composite
def ranked_corpora(draw: st.DrawFn) -> tuple[Ranked, Allowed]:
    """A ranking of few distinct scores over part of a catalogue, and a rule that removes any share of it."""
    ids = np.array(sorted(draw(st.sets(st.integers(0, 10_000), min_size=1, max_size=60))), np.int64)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    days = rng.choice([0, 5, 10, NEVER], len(ids), p=[0.4, 0.2, 0.3, 0.1]).astype(np.int32)
    catalogue = Catalogue(ids, days, rng.random(len(ids)) < draw(st.sampled_from([0.0, 0.3, 1.0])))
    topic_id = int(draw(st.sampled_from([*ids, 10_001])))
    allowed = Allowed(catalogue, topic_id, EPOCH + timedelta(days=draw(st.sampled_from([0, 1, 6, 11]))))
    matching = ids[rng.random(len(ids)) < draw(st.sampled_from([0.2, 1.0]))]
    return Ranked(matching, rng.integers(0, 4, len(matching)).astype(np.float32)).ordered(), allowed


@given(ranked_corpora(), st.integers(1, 70), FACTORS, st.sampled_from(["1", "K", "N"]))
@settings(max_examples=150, deadline=None)
def test_backoff_equals_filtering_the_complete_ranking(
    corpus: tuple[Ranked, Allowed], k: int, factor: int, start: str
) -> None:
    ranking, allowed = corpus
    size = len(allowed.catalogue.ids)
    asked: list[int] = []

    def first(n: int) -> Ranked:
        asked.append(n)
        return Ranked(ranking.ids[:n], ranking.scores[:n])

    backoff = BackOff(factor, {"1": 1, "K": None, "N": size}[start])
    hits, trace = search_with_backoff(first, size, k, allowed, backoff)
    assert hits == brute_force(ranking, allowed, k)
    assert asked[0] == min({"1": 1, "K": k, "N": size}[start], size)
    assert all(later == min(factor * before, size) for before, later in pairwise(asked))
    assert (trace.rounds, trace.depth) == (len(asked), asked[-1])
    seen = ranking.ids[: trace.depth].tolist()
    dropped = trace.dropped_survey + trace.dropped_date + trace.dropped_self
    assert dropped == len(seen) - sum(passes(allowed, i) for i in seen)
    assert trace.dropped_self == (allowed.topic_id in seen)


def test_the_trace_counts_hits_removed_by_each_rule() -> None:
    catalogue = Catalogue(np.arange(5), np.array([1, 1, 9, NEVER, 1], np.int32), np.array([0, 1, 1, 0, 0], bool))
    ranking = Ranked(np.array([0, 1, 2, 3, 4]), np.array([5, 4, 3, 2, 1], np.float32))
    allowed = Allowed(catalogue, 0, EPOCH + timedelta(days=9))
    found = search_with_backoff(lambda n: Ranked(ranking.ids[:n], ranking.scores[:n]), 5, 1, allowed)
    assert found == ([Hit(4, 1.0)], Trace(rounds=4, depth=5, dropped_survey=2, dropped_date=1, dropped_self=1))


def test_an_index_with_unknown_documents_is_refused() -> None:
    allowed = Allowed(Catalogue(np.array([1]), np.zeros(1, np.int32), np.zeros(1, bool)), 9, date(2020, 1, 1))
    with pytest.raises(BadInput, match="document 7"):
        search_with_backoff(lambda n: Ranked(np.array([7]), np.ones(1, np.float32)), 1, 1, allowed)


def rule(collection: Collection, topic: int, day: int) -> Allowed:
    return Allowed(collection.catalogue, collection.topics[topic].topic_id, date(2019, 11, 30) + timedelta(days=day))


TOPICS, DAYS, DEPTHS = st.integers(0, 4), st.integers(0, 63), st.integers(1, 170)
TEXTS = st.lists(st.sampled_from([*WORDS, "unknown"]), max_size=5).map(" ".join)
WEIGHTS = st.dictionaries(st.sampled_from(WORDS), st.floats(0.1, 5), max_size=6).map(WeightedTerms)


@given(query=TEXTS | WEIGHTS, topic=TOPICS, day=DAYS, k=DEPTHS, factor=FACTORS, start=st.sampled_from([1, None, 150]))
@settings(max_examples=40, deadline=None)
def test_bm25_filters_like_brute_force(
    collection: Collection, query: Query, topic: int, day: int, k: int, factor: int, start: int | None
) -> None:
    allowed = rule(collection, topic, day)
    weights = query.weights if isinstance(query, WeightedTerms) else {w: query.split().count(w) for w in query.split()}
    complete = collection.bm25.search(weights, collection.bm25.size)
    found = Bm25Retriever(collection.bm25, BackOff(factor, start)).search(query, k, allowed)
    assert found.hits == brute_force(complete, allowed, k)


@given(
    vector=st.lists(st.integers(-2, 2), min_size=DIMENSIONS, max_size=DIMENSIONS).filter(any),
    topic=TOPICS,
    day=DAYS,
    k=DEPTHS,
    factor=FACTORS,
)
@settings(max_examples=40, deadline=None)
def test_dense_filters_like_brute_force_and_like_backoff(
    collection: Collection, vector: list[int], topic: int, day: int, k: int, factor: int
) -> None:
    allowed, index = rule(collection, topic, day), collection.dense
    query = np.array(vector, np.float32)
    exact = collection.vectors.astype(np.float64) @ unit_rows(query[None])[0].astype(np.float64)
    complete = Ranked(index.ids, exact.astype(np.float32)).ordered()
    found = DenseRetriever(index, Axes()).search(Vector(query), k, allowed)
    assert found.hits == brute_force(complete, allowed, k)
    widened = search_with_backoff(lambda n: index.search(query, n), index.size, k, allowed, BackOff(factor, 1))
    assert found.hits == widened.hits
    assert found.trace.depth == index.size
    removed = found.trace.dropped_survey + found.trace.dropped_date + found.trace.dropped_self
    assert removed == index.size - sum(passes(allowed, i) for i in index.ids.tolist())
