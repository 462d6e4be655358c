"""Topics and qrels: every exclusion of the paper applies in its order and is counted."""

from datetime import date, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.tables.documents import DOCUMENTS
from schemas.tables.papers import PAPERS
from schemas.tables.references import REFERENCES
from tasks.corpus.topics import TopicSettings, topics
from tasks.store.dataset import Dataset
from tests.corpus.conftest import Corpus

DAY = date(2020, 6, 15)
BEFORE = DAY - timedelta(days=1)


def refer(survey: int, cited: int | None, influential: bool | None = None, entries: int = 1) -> dict[str, Any]:
    found = {"survey_id": survey, "cited_id": cited, "entries": entries, "is_influential": influential}
    return {**found, "linking": "-", "used": True}


def survey(corpus_id: int, day: date | None = DAY, precision: str = "day", **more: Any) -> dict[str, Any]:
    return {"corpus_id": corpus_id, "title": f"Survey {corpus_id}", "date": day, "date_precision": precision, **more}


def build(
    corpus: Corpus,
    surveys: list[dict[str, Any]],
    references: list[dict[str, Any]],
    dates: dict[int, date | None],
    policy: str = "dec31",
) -> Dataset:
    """`dates` are those of the documents; surveys are documents only if they are among them."""
    return corpus.build(
        topics,
        TopicSettings.model_validate({"year_only_survey": policy}),
        surveys=corpus.accepted(*(row["corpus_id"] for row in surveys), rejected=[990]),
        papers=corpus.given("papers", {PAPERS: [*surveys, {"corpus_id": 990}]}, buckets=2),
        references=corpus.given("references", {REFERENCES: references}),
        documents=corpus.given(
            "documents", {DOCUMENTS: [{"corpus_id": i, "date": day} for i, day in dates.items()]}, buckets=2
        ),
    )


def qrels(built: Dataset) -> dict[tuple[int, int], int]:
    return {(row["topic_id"], row["corpus_id"]): row["relevance"] for row in built.table("qrels").to_pylist()}


def dropped(built: Dataset) -> dict[tuple[int, int], str]:
    rows = built.table("dropped_references").to_pylist()
    return {(row["topic_id"], row["corpus_id"]): row["reason"] for row in rows}


def row(built: Dataset, topic_id: int) -> dict[str, Any]:
    return next(row for row in built.table().to_pylist() if row["topic_id"] == topic_id)


def test_every_reference_is_relevant_or_dropped_for_its_first_reason(corpus: Corpus):
    cited = [1, 2, 10, 11, 12, 13, 14, 990]
    dates = {1: None, 2: DAY, 10: BEFORE, 11: BEFORE, 12: None, 13: DAY, 990: BEFORE}
    references = [refer(1, i, influential=i == 11) for i in cited] + [refer(1, None)]
    built = build(corpus, [survey(1), survey(2)], references, dates)
    assert qrels(built) == {(1, 10): 1, (1, 11): 2, (1, 990): 1}
    assert dropped(built) == {
        (1, 1): "self",
        (1, 2): "survey",
        (1, 12): "no_date",
        (1, 13): "later",
        (1, 14): "not_in_corpus",
    }
    found = row(built, 1)
    assert (found["references"], found["linked"], found["accessible"], found["relevant"]) == (9, 8, 7, 3)
    assert (found["influential"], found["outcome"], found["coverage"]) == (1, "kept", 7 / 9)


def test_outcomes_apply_in_the_order_of_the_paper(corpus: Corpus):
    surveys = [survey(1), survey(2), survey(3, None, "none"), survey(4), survey(5), survey(6, None, "none")]
    references = [refer(2, 70), refer(2, None), refer(3, 10), refer(3, 70), refer(4, 11), refer(5, 10), refer(6, 70)]
    built = build(corpus, surveys, references, {10: BEFORE, 11: DAY})
    outcomes = {row["topic_id"]: row["outcome"] for row in built.table().to_pylist()}
    assert outcomes == {
        1: "no_references",
        2: "none_accessible",
        3: "no_date",
        4: "none_left",
        5: "kept",
        6: "none_accessible",
    }
    assert dropped(built)[3, 10] == "topic_excluded"
    counts = built.manifest.counts
    assert (counts.read, counts.kept) == (6, 1)
    assert counts.dropped == {"no_references": 1, "none_accessible": 2, "no_date": 1, "none_left": 1}
    assert counts.notes["references_relevant"] == 1
    assert sum(n for name, n in counts.notes.items() if name.startswith("references_")) == 6


@pytest.mark.parametrize(
    ("policy", "expected", "outcome"),
    [("dec31", {10, 11}, "kept"), ("jan1", {10}, "kept"), ("drop", set(), "no_date")],
)
def test_horizon_of_a_survey_with_a_year_only(corpus: Corpus, policy: str, expected: set[int], outcome: str):
    year_end = date(2020, 12, 31)
    surveys = [survey(1, year_end, "year")]
    dates = {10: date(2019, 12, 31), 11: date(2020, 12, 30), 12: year_end}
    built = build(corpus, surveys, [refer(1, i) for i in dates], dates, policy)
    assert {corpus_id for _, corpus_id in qrels(built)} == expected
    assert row(built, 1)["outcome"] == outcome
    assert row(built, 1)["horizon_precision"] == "year"


def test_denominator_of_coverage(corpus: Corpus):
    surveys = [survey(1, reference_count=99), survey(2, reference_count=99), survey(3), survey(4, reference_count=5)]
    references = [
        *(refer(1, 10, entries=2), refer(1, None), refer(1, None)),
        *(refer(2, 10, entries=0), refer(2, None, entries=0)),
        *(refer(3, 10, entries=1), refer(3, 11, entries=0)),
    ]
    built = build(corpus, surveys, references, {10: BEFORE})
    listed = {row["topic_id"]: (row["references"], row["coverage"]) for row in built.table().to_pylist()}
    assert listed == {1: (4, 1 / 4), 2: (99, 1 / 99), 3: (2, 1 / 2), 4: (0, None)}


def test_surveys_that_cite_each_other_are_no_qrels(corpus: Corpus):
    surveys = [survey(1), survey(2), survey(3)]
    cycle = [refer(1, 2), refer(2, 3), refer(3, 1), refer(1, 1)]
    dates = {1: BEFORE, 2: BEFORE, 3: BEFORE, 10: BEFORE}
    built = build(corpus, surveys, [*cycle, refer(1, 10)], dates)
    assert qrels(built) == {(1, 10): 1}
    assert dropped(built) == {(1, 1): "self", (1, 2): "survey", (2, 3): "survey", (3, 1): "survey"}
    assert {i: row(built, i)["outcome"] for i in (1, 2, 3)} == {1: "kept", 2: "none_left", 3: "none_left"}


days = st.one_of(st.none(), st.dates(date(2019, 12, 29), date(2020, 1, 2)))


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    surveys=st.dictionaries(st.integers(0, 4), days, max_size=4),
    dates=st.dictionaries(st.integers(0, 9), days),
    pairs=st.sets(st.tuples(st.integers(0, 4), st.integers(0, 9))),
)
def test_qrels_follow_the_definition(new_corpus, surveys, dates, pairs):
    known = [survey(i, day, "day" if day else "none") for i, day in surveys.items()]
    cited = [(i, j) for i, j in pairs if i in surveys]
    built = build(new_corpus(), known, [refer(i, j) for i, j in cited], dates)
    relevant = {
        (i, j)
        for i, j in cited
        if j in dates and j != i and j not in surveys and surveys[i] and dates[j] and dates[j] < surveys[i]
    }
    assert set(qrels(built)) == relevant
    assert set(dropped(built)) == set(cited) - relevant
    assert {row["topic_id"] for row in built.table().to_pylist()} == set(surveys)
    kept = {row["topic_id"] for row in built.table().to_pylist() if row["outcome"] == "kept"}
    assert kept == {i for i, _ in relevant}


def test_only_links_of_the_chosen_source_become_judgments(corpus: Corpus):
    references = [refer(1, 10), refer(1, 11) | {"used": False}, refer(2, 11) | {"used": False}]
    built = build(corpus, [survey(1), survey(2)], references, {10: BEFORE, 11: BEFORE})
    assert qrels(built) == {(1, 10): 1}
    assert (row(built, 1)["references"], row(built, 2)["outcome"]) == (1, "no_references")
