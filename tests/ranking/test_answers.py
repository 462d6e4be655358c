"""What becomes of a system's answer: valid scores, outcomes, and failures that stay with their topic."""

from collections.abc import Callable
from datetime import date

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import MissingDependency, TransientError
from schemas.identifiers import CorpusId
from schemas.topic import Hit, Topic
from tasks.ranking.answers import Answer, answer_topic, rank_hits
from tasks.ranking.baseline import Kit, Ranking
from tasks.retrieval.desk import ResearchDesk
from tasks.retrieval.documents import Document
from tasks.retrieval.retriever import Allowed, Catalogue, Found, Query, Trace

TOPIC = Topic(CorpusId(1), "Birds: A Survey", date(2020, 1, 1))
SURVEY, LATE, FIRST = 2, 3, 10


class ById:
    """Finds every allowed document, the highest id first."""

    name = "by_id"

    def search(self, query: Query, k: int, allowed: Allowed | None = None) -> Found:
        assert allowed is not None
        ids = allowed.catalogue.ids[allowed.judge(np.arange(len(allowed.catalogue.ids))).kept][::-1]
        return Found([Hit(CorpusId(int(i)), float(i)) for i in ids[:k]], Trace())


class NoTexts:
    def read(self, ids: object) -> list[Document]:
        raise AssertionError("not asked to read")


@pytest.fixture
def kit() -> Kit:
    days = np.full(43, 100, np.int32)
    days[LATE - 1] = 30_000
    ids = np.arange(1, 44, dtype=np.int64)
    catalogue = Catalogue(ids, days, ids == SURVEY)
    desk = ResearchDesk(TOPIC, {"by_id": ById()}, "by_id", Allowed.of(catalogue, TOPIC), NoTexts())  # pyright: ignore
    return Kit(desk, cutoff=5, seed=1)


def hits(*pairs: tuple[int, float]) -> list[Hit]:
    return [Hit(CorpusId(corpus_id), score) for corpus_id, score in pairs]


def answer(kit: Kit, system: Callable[[Topic, Kit], object]) -> Answer:
    return answer_topic(system, TOPIC, kit)  # pyright: ignore[reportArgumentType]


def test_scores_that_decrease_strictly_are_kept() -> None:
    assert rank_hits(hits((7, 0.5), (3, 0.25), (9, -1e-30)), 10) == hits((7, 0.5), (3, 0.25), (9, -1e-30))


@pytest.mark.parametrize(
    "scores",
    [(0.5, 0.5, 0.25), (0.1, 0.2, 0.3), (1.0, 1.0 - 1e-12, 0.5), (1e300, 1e299, 0.0)],
    ids=["ties", "ascending", "equal as 32-bit floats", "beyond 32-bit floats"],
)
def test_other_scores_become_the_negated_rank(scores: tuple[float, ...]) -> None:
    assert rank_hits(hits(*zip((4, 8, 6), scores, strict=True)), 10) == hits((4, -1), (8, -2), (6, -3))


def test_ties_ascend_by_corpus_id_and_the_first_place_of_a_document_counts() -> None:
    found = rank_hits(hits((5, 0.9), (8, 0.5), (2, 0.5), (5, 0.5), (4, 0.4), (1, 0.4)), 4)
    assert found == hits((5, -1), (2, -2), (8, -3), (1, -4))


@given(
    st.lists(st.tuples(st.integers(1, 20), st.floats(-1e38, 1e38)), max_size=30),
    st.integers(1, 25),
)
def test_every_list_becomes_a_valid_run(pairs: list[tuple[int, float]], cutoff: int) -> None:
    found = rank_hits(hits(*pairs), cutoff)
    distinct = list(dict.fromkeys(corpus_id for corpus_id, _ in pairs))
    assert len(found) == min(cutoff, len(distinct))
    assert len({hit.corpus_id for hit in found}) == len(found) and {hit.corpus_id for hit in found} <= set(distinct)
    held = np.array([hit.score for hit in found], dtype=np.float32)
    assert (np.diff(held) < 0).all()
    assert rank_hits(found, cutoff) == found


def test_a_good_answer_is_scored(kit: Kit) -> None:
    whole = {"note": "all well", "fallback": True, "outline": "# A"}
    found = answer(kit, lambda topic, kit: Ranking(kit.desk.search("x", 3), **whole))
    assert found == (hits((43, 43.0), (42, 42.0), (41, 41.0)), "scored", "all well", True, "# A")


def test_the_cutoff_bounds_a_longer_answer(kit: Kit) -> None:
    found = answer(kit, lambda topic, kit: Ranking(kit.desk.search("x", 20)))
    assert [hit.corpus_id for hit in found.hits] == [43, 42, 41, 40, 39]


def test_an_empty_answer_is_empty_and_keeps_its_note(kit: Kit) -> None:
    assert answer(kit, lambda *_: Ranking([], note="no words")) == ([], "empty", "no words", False, None)
    assert answer(kit, lambda *_: Ranking([], "refused", "policy")) == ([], "refused", "policy", False, None)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (Ranking(hits((FIRST, 2.0), (SURVEY, 1.0))), "document 2 must not be seen (survey"),
        (Ranking(hits((LATE, 1.0))), "document 3 must not be seen (late"),
        (Ranking(hits((TOPIC.topic_id, 1.0))), "document 1 must not be seen (itself"),
        (Ranking(hits((999, 1.0))), "document 999 is not in the corpus"),
        (Ranking(hits((FIRST, float("nan")))), "score nan"),
        (Ranking(hits((FIRST, 1.0)), "splendid"), "outcome 'splendid'"),
        (None, "AttributeError"),
    ],
)
def test_an_invalid_answer_fails_the_topic(kit: Kit, found: object, message: str) -> None:
    ended = answer(kit, lambda *_: found)
    assert ended.hits == [] and ended.outcome == "failed"
    assert ended.note is not None and message in ended.note


def test_an_exception_fails_the_topic_with_its_text(kit: Kit) -> None:
    def raising(topic: Topic, kit: Kit) -> Ranking:
        raise ZeroDivisionError("x" * 10_000)

    ended = answer(kit, raising)
    assert ended.outcome == "failed" and ended.note is not None
    assert ended.note.startswith("ZeroDivisionError: xxx") and len(ended.note) <= 500


@pytest.mark.parametrize("error", [TransientError("rate limit"), MissingDependency("pip install x")])
def test_what_is_no_fault_of_the_system_ends_the_stage(kit: Kit, error: Exception) -> None:
    def raising(topic: Topic, kit: Kit) -> Ranking:
        raise error

    with pytest.raises(type(error)):
        answer(kit, raising)
