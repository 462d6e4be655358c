"""Records, abstracts and full texts are joined to papers, with the latest possible date."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import BadInput
from schemas.manifest import Ref
from schemas.tables.abstract_records import ABSTRACT_RECORDS
from schemas.tables.full_texts import FULL_TEXTS
from schemas.tables.paper_records import PAPER_RECORDS
from tasks.corpus.dates import Publication, horizon_of, resolve_date
from tasks.corpus.papers import papers
from tests.corpus.conftest import Corpus

PARAGRAPHS = [{"section": -1, "text": "Rain falls."}]


@pytest.mark.parametrize(
    ("written", "year", "expected"),
    [
        ("2019-03-07", 2019, Publication(date(2019, 3, 7), "day")),
        ("2018-05-07", 2019, Publication(date(2018, 5, 7), "day", disagrees=True)),
        ("2019-02", None, Publication(date(2019, 2, 28), "month")),
        ("2020-2", 2020, Publication(date(2020, 2, 29), "month")),
        ("2019", None, Publication(date(2019, 12, 31), "year")),
        (None, 2019, Publication(date(2019, 12, 31), "year")),
        (" ", 2019, Publication(date(2019, 12, 31), "year")),
        ("2019-02-30", 2019, Publication(date(2019, 12, 31), "year", unparseable=True)),
        ("2019-13", None, Publication(None, "none", unparseable=True)),
        ("spring 2019", 2019, Publication(date(2019, 12, 31), "year", unparseable=True)),
        ("0000-00-00", None, Publication(None, "none", unparseable=True)),
        (None, 0, Publication(None, "none", unparseable=True)),
        (None, 20190, Publication(None, "none", unparseable=True)),
        (None, None, Publication(None, "none")),
    ],
)
def test_date_is_the_latest_day_that_the_record_allows(written: str | None, year: int | None, expected: Publication):
    assert resolve_date(written, year) == expected


@given(st.dates(), st.one_of(st.none(), st.integers(1, 9999)))
def test_less_precision_never_makes_a_paper_older(day: date, year: int | None):
    text = day.isoformat()
    by_day, by_month, by_year = (resolve_date(text[:length], year).date for length in (10, 7, 4))
    assert by_day == day
    assert by_day <= by_month <= by_year == resolve_date(None, day.year).date


@given(st.text(max_size=12), st.one_of(st.none(), st.integers()))
def test_any_record_has_a_date_or_none(written: str, year: int | None):
    found = resolve_date(written, year)
    assert (found.date is None) == (found.precision == "none")


@pytest.mark.parametrize(
    ("precision", "policy", "expected"),
    [
        ("year", "dec31", date(2020, 12, 31)),
        ("year", "jan1", date(2020, 1, 1)),
        ("year", "drop", None),
        ("month", "jan1", date(2020, 12, 31)),
        ("day", "drop", date(2020, 12, 31)),
    ],
)
def test_the_policy_applies_only_to_surveys_with_just_a_year(precision: str, policy: Any, expected: date | None):
    assert horizon_of(date(2020, 12, 31), precision, policy) == expected


def records(corpus: Corpus, buckets: int = 2, abstract_buckets: int = 2) -> dict[str, Ref]:
    rows = [
        {"corpus_id": 1, "title": " Rain \n", "year": 2019, "fields_of_study": ["Geology", "Art", "Geology"]},
        {"corpus_id": 2, "title": " ", "year": 2018, "publication_date": "2019-04-01"},
        {"corpus_id": 3, "title": "Snow", "publication_date": "unknown"},
        {"corpus_id": 4, "title": "Hail", "year": 2020},
    ]
    abstracts = [{"corpus_id": 1, "abstract": "On rain."}, {"corpus_id": 9, "abstract": "Of nothing."}]
    texts = [
        {"corpus_id": 1, "abstract": "By the parser.", "paragraphs": PARAGRAPHS},
        {"corpus_id": 3, "abstract": "Snow, parsed.", "paragraphs": []},
        {"corpus_id": 8, "paragraphs": PARAGRAPHS},
    ]
    return {
        "paper_records": corpus.given("paper_records", {PAPER_RECORDS: rows}, buckets),
        "abstract_records": corpus.given("abstract_records", {ABSTRACT_RECORDS: abstracts}, abstract_buckets),
        "full_texts": corpus.given("full_texts", {FULL_TEXTS: texts}, buckets),
    }


def test_paper_is_record_with_abstract_and_date(corpus: Corpus):
    built = corpus.build(papers, **records(corpus))
    found = {row["corpus_id"]: row for row in built.table().to_pylist()}
    assert [path.name for path in built.files()] == ["part-00000.parquet", "part-00001.parquet"]
    assert {i: row["title"] for i, row in found.items()} == {1: "Rain", 2: None, 3: "Snow", 4: "Hail"}
    assert {i: row["abstract"] for i, row in found.items()} == {1: "On rain.", 2: None, 3: "Snow, parsed.", 4: None}
    assert {i: row["has_full_text"] for i, row in found.items()} == {1: True, 2: False, 3: False, 4: False}
    assert found[1]["fields_of_study"] == ["Art", "Geology"]
    assert (found[2]["date"], found[2]["date_precision"], found[2]["year"]) == (date(2019, 4, 1), "day", 2018)
    assert (found[3]["date"], found[3]["date_precision"]) == (None, "none")


def test_problems_of_records_are_counted(corpus: Corpus):
    counts = corpus.build(papers, **records(corpus)).manifest.counts
    assert (counts.read, counts.kept) == (4, 4)
    assert counts.notes == {
        "date_unparseable": 1,
        "date_year_disagrees": 1,
        "date_day": 1,
        "date_year": 2,
        "date_none": 1,
        "abstract_from_parser": 1,
        "with_abstract": 2,
        "has_full_text": 1,
        "abstracts_without_paper": 1,
        "full_texts_without_paper": 1,
    }


def test_release_without_full_texts(corpus: Corpus):
    inputs = records(corpus)
    del inputs["full_texts"]
    found = corpus.build(papers, **inputs).table().to_pylist()
    assert [row["abstract"] for row in found if row["abstract"]] == ["On rain."]
    assert not any(row["has_full_text"] for row in found)


def test_bytes_do_not_depend_on_the_number_of_workers(corpus: Corpus, tmp_path):
    other = Corpus(tmp_path / "other")
    alone, together = corpus.build(papers, **records(corpus)), other.build(papers, workers=2, **records(other))
    assert alone.manifest.digest == together.manifest.digest


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_bytes_and_counts_do_not_depend_on_the_papers_in_memory(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
):
    at_once = corpus.build(papers, **records(corpus, buckets=1, abstract_buckets=1))
    monkeypatch.setattr("tasks.corpus.papers.ROWS", rows)
    other = Corpus(tmp_path / "other")
    by_few = other.build(papers, **records(other, buckets=1, abstract_buckets=1))
    assert by_few.manifest.digest == at_once.manifest.digest
    assert by_few.manifest.counts == at_once.manifest.counts


def test_inputs_bucketed_differently_are_refused(corpus: Corpus):
    with pytest.raises(BadInput, match="abstract_records has 3 buckets, paper_records has 2"):
        corpus.build(papers, **records(corpus, abstract_buckets=3))
