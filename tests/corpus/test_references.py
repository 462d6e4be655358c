"""References of surveys from bibliography and citations table: each counts once, and disagreement stays visible."""

from typing import Any

import pytest

from schemas.manifest import Ref
from schemas.settings import LinkSource
from schemas.tables.bibliography import BIBLIOGRAPHY
from schemas.tables.citation_records import CITATION_RECORDS
from schemas.tables.full_texts import FULL_TEXTS
from tasks.corpus.references import ReferenceSettings, references
from tests.corpus.conftest import Corpus


def cite(citing: int, cited: int | None, influential: bool | None = None, edge: int = 0) -> dict[str, Any]:
    return {
        "citing_corpus_id": citing,
        "cited_corpus_id": cited,
        "is_influential": influential,
        "citation_id": edge or 1000 * citing + (cited or 0),
    }


def print_entries(paper: int, *entries: tuple[int | None, int]) -> list[dict[str, Any]]:
    return [
        {"corpus_id": paper, "position": place, "entry": "-", "matched_corpus_id": matched, "mentions": mentions}
        for place, (matched, mentions) in enumerate(entries)
    ]


def texts(corpus: Corpus, bibliography: list[dict[str, Any]]) -> Ref:
    return corpus.given("full_texts", {FULL_TEXTS: [], BIBLIOGRAPHY: bibliography}, buckets=2)


def citations(corpus: Corpus, *edges: dict[str, Any]) -> Ref:
    return corpus.given("citation_records", {CITATION_RECORDS: edges}, buckets=2)


def build(corpus: Corpus, surveys: Ref, edges: Ref, full_texts: Ref | None = None, source: LinkSource = "both"):
    inputs = {"surveys": surveys, "citation_records": edges} | ({"full_texts": full_texts} if full_texts else {})
    return corpus.build(references, ReferenceSettings(source=source), **inputs)


def rows_of(dataset: Any, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[column] for column in columns) for row in dataset.table().to_pylist()]


def test_bibliography_and_citations_are_merged(corpus: Corpus):
    found = build(
        corpus,
        corpus.accepted(1),
        citations(corpus, cite(1, 10, True), cite(1, 12, False)),
        texts(corpus, print_entries(1, (10, 3), (11, 1), (None, 2))),
    )
    columns = ("cited_id", "linking", "in_bibliography", "in_citations", "is_influential", "entries", "mentions")
    assert rows_of(found, *columns) == [
        (10, "both", True, True, True, 1, 3),
        (11, "bibliography_only", True, False, None, 1, 1),
        (12, "citations_only", False, True, False, 0, None),
        (None, "unmatched", False, False, None, 1, 2),
    ]


@pytest.mark.parametrize(
    ("source", "used", "unmatched"),
    [
        ("bibliography", [(1, 10, True), (1, 11, None)], [1]),
        ("citations", [(1, 10, True), (1, 12, False), (2, 10, None)], [1, 2]),
        ("both", [(1, 10, True), (1, 11, None), (1, 12, False), (2, 10, None)], [1, 2]),
    ],
)
def test_the_source_decides_which_links_count(
    corpus: Corpus, source: LinkSource, used: list[Any], unmatched: list[int]
):
    edges = [cite(1, 10, True), cite(1, 12, False), cite(1, None, edge=1), cite(2, 10), cite(2, None, edge=2)]
    entries = print_entries(1, (10, 3), (11, 1), (None, 2))
    found = build(corpus, corpus.accepted(1, 2), citations(corpus, *edges), texts(corpus, entries), source)
    rows = found.table().to_pylist()
    linked = [row for row in rows if row["cited_id"] is not None]
    counting = [row for row in linked if row["used"]]
    assert [(row["survey_id"], row["cited_id"], row["is_influential"]) for row in counting] == used
    assert [row["survey_id"] for row in rows if row["cited_id"] is None and row["used"]] == unmatched
    every = {(1, 10): "both", (1, 11): "bibliography_only", (1, 12): "citations_only", (2, 10): "citations_only"}
    assert {(row["survey_id"], row["cited_id"]): row["linking"] for row in linked} == every
    assert found.manifest.counts.notes["used"] == len(used) + len(unmatched)


def test_entries_of_the_same_paper_become_one_row(corpus: Corpus):
    bibliography = print_entries(1, (10, 3), (None, 0), (10, 2), (None, 0), (11, 0))
    found = build(corpus, corpus.accepted(1), citations(corpus), texts(corpus, bibliography))
    assert rows_of(found, "cited_id", "entries", "mentions") == [(10, 2, 5), (11, 1, 0), (None, 1, 0), (None, 1, 0)]
    assert found.manifest.counts.notes["bibliography_entries"] == len(bibliography)


def test_repeated_edges_become_one_influential_reference(corpus: Corpus):
    edges = [cite(1, 10, False, 1), cite(1, 10, True, 2), cite(1, 11, None, 3), cite(1, 11, None, 4)]
    found = build(corpus, corpus.accepted(1), citations(corpus, *edges))
    assert rows_of(found, "cited_id", "is_influential") == [(10, True), (11, None)]


def test_unresolved_edges_count_only_where_there_is_no_bibliography(corpus: Corpus):
    edges = citations(corpus, cite(1, None, edge=1), cite(2, None, edge=2), cite(2, None, edge=3), cite(2, 10))
    found = build(corpus, corpus.accepted(1, 2), edges, texts(corpus, print_entries(1, (None, 1))))
    assert rows_of(found, "survey_id", "cited_id", "entries") == [(1, None, 1), (2, 10, 0), (2, None, 0), (2, None, 0)]


def test_only_accepted_surveys_have_references(corpus: Corpus):
    found = build(
        corpus,
        corpus.accepted(1, rejected=[2]),
        citations(corpus, cite(1, 10), cite(2, 10), cite(10, 1)),
        texts(corpus, [*print_entries(2, (11, 1)), *print_entries(10, (1, 1))]),
    )
    assert rows_of(found, "survey_id", "cited_id") == [(1, 10)]
    assert found.manifest.counts.notes["surveys_with_bibliography"] == 0


def test_no_survey_at_all(corpus: Corpus):
    found = build(corpus, corpus.accepted(rejected=[1]), citations(corpus, cite(1, 10)))
    assert found.table().num_rows == 0
    assert found.manifest.counts.notes["surveys"] == 0
