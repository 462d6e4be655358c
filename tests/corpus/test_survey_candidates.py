"""Which papers a selector is asked about: by title, by what the release has of them, and by language."""

from typing import Any

import pytest

from schemas.errors import BadInput
from schemas.manifest import Ref
from schemas.settings import SurveyScope
from schemas.tables.bibliography import BIBLIOGRAPHY
from schemas.tables.citation_records import CITATION_RECORDS
from schemas.tables.full_texts import FULL_TEXTS
from schemas.tables.papers import PAPERS
from tasks.corpus.surveys import SurveySettings, surveys
from tasks.store.dataset import Dataset
from tests.corpus.conftest import Corpus

FRENCH = "Un survey sur la détection des anomalies"


def paper(corpus_id: int, title: str | None = "Rain: A Survey", *, has_full_text: bool = False) -> dict[str, Any]:
    return {"corpus_id": corpus_id, "title": title, "has_full_text": has_full_text}


PAPERS_GIVEN = [
    paper(1, has_full_text=True),
    paper(2),  # cites, by its bibliography
    paper(3),  # cites, by the citations table; nobody knows what
    paper(4),  # is cited
    paper(5, FRENCH, has_full_text=True),
    paper(6, FRENCH),
    paper(7, "Rain: a review", has_full_text=True),
    paper(8, None),
]


def inputs(corpus: Corpus, buckets: int = 3) -> dict[str, Ref]:
    entries = [{"corpus_id": 2, "position": 0, "entry": "-"}]
    edge = {"citing_corpus_id": 3, "cited_corpus_id": None, "citation_id": 1}
    return {
        "papers": corpus.given("papers", {PAPERS: PAPERS_GIVEN}, buckets=3),
        "full_texts": corpus.given("full_texts", {FULL_TEXTS: [], BIBLIOGRAPHY: entries}, buckets=3),
        "citation_records": corpus.given("citation_records", {CITATION_RECORDS: [edge]}, buckets=buckets),
    }


def left_out(found: Dataset) -> dict[int, str]:
    return {row["corpus_id"]: row["reason"] for row in found.table("dropped_candidates").to_pylist()}


@pytest.mark.parametrize(
    ("scope", "candidates", "dropped"),
    [
        ("full_text", [1], dict.fromkeys([2, 3, 4, 6], "no_full_text") | {5: "not_english"}),
        ("references", [2, 3], dict.fromkeys([1, 4, 5, 6], "no_references")),
        ("all", [1, 2, 3, 4], dict.fromkeys([5, 6], "not_english")),
    ],
)
def test_scope_and_language_decide_who_is_a_candidate(
    corpus: Corpus, scope: SurveyScope, candidates: list[int], dropped: dict[int, str]
):
    found = corpus.build(surveys, SurveySettings(scope=scope), workers=2, **inputs(corpus))
    assert found.table()["corpus_id"].to_pylist() == candidates
    assert left_out(found) == dropped
    counts = found.manifest.counts
    reasons = {reason: list(dropped.values()).count(reason) for reason in set(dropped.values())}
    assert (counts.read, counts.kept) == (8, len(candidates))
    assert counts.dropped == {"title": 2, "rejected": 0} | reasons


def test_the_language_of_a_paper_that_is_left_out_is_stated(corpus: Corpus):
    found = corpus.build(surveys, SurveySettings(scope="full_text"), **inputs(corpus))
    languages = {row["corpus_id"]: row["language"] for row in found.table("dropped_candidates").to_pylist()}
    assert languages == {2: None, 3: None, 4: None, 5: "French", 6: None}


def test_papers_of_every_language_on_request(corpus: Corpus):
    found = corpus.build(surveys, SurveySettings(english=False), **inputs(corpus))
    assert found.table()["corpus_id"].to_pylist() == [1, 2, 3, 4, 5, 6]


def test_candidates_do_not_depend_on_workers_and_buckets(corpus: Corpus):
    alone = corpus.build(surveys, SurveySettings(scope="all"), **inputs(corpus))
    papers = corpus.given("papers", {PAPERS: PAPERS_GIVEN}, buckets=5)
    shared = corpus.build(surveys, SurveySettings(scope="all"), workers=2, papers=papers)
    assert shared.ref.digest == alone.ref.digest


def test_inputs_with_other_buckets_are_an_error(corpus: Corpus):
    with pytest.raises(BadInput, match="citation_records has 2 buckets, papers has 3"):
        corpus.build(surveys, SurveySettings(scope="references"), **inputs(corpus, buckets=2))
