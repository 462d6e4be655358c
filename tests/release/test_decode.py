"""Records of papers, abstracts and citations: read by name, tolerant of absence, strict about types."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import BadInput
from schemas.tables.citation_records import CITATION_RECORDS
from schemas.tables.paper_records import PAPER_RECORDS
from tasks.release.decode import Record, decode_abstract, decode_citation, decode_paper, read_integer

PAPER: Record = {
    "corpusid": 7,
    "externalids": {"DOI": "10.5555/x", "ArXiv": None},
    "title": " A Title ",
    "authors": [{"authorId": "1", "name": "A. One"}, {"authorId": None, "name": None}, {"name": "B. Two"}],
    "venue": "",
    "year": 2020,
    "publicationdate": "2020-02-30",
    "s2fieldsofstudy": [
        {"category": "Physics", "source": "external"},
        {"category": "Biology", "source": "s2-fos-model"},
        {"category": "Physics", "source": "s2-fos-model"},
    ],
    "publicationtypes": None,
    "referencecount": 3,
    "citationcount": "12",
    "unheard of": {"a": 1},
}


def paper(**changes: Any) -> dict[str, Any]:
    return dict(zip(PAPER_RECORDS.arrow.names, decode_paper(PAPER | changes, Counter()), strict=True))


def test_a_paper_keeps_what_its_record_says() -> None:
    assert paper() == {
        "corpus_id": 7,
        "title": " A Title ",
        "authors": ["A. One", "B. Two"],
        "venue": "",
        "year": 2020,
        "publication_date": "2020-02-30",
        "fields_of_study": ["Physics", "Biology"],
        "publication_types": [],
        "reference_count": 3,
        "citation_count": 12,
        "influential_citation_count": None,
        "doi": "10.5555/x",
        "arxiv": None,
        "url": None,
    }


def test_only_the_id_is_needed() -> None:
    row = dict(zip(PAPER_RECORDS.arrow.names, decode_paper({"corpusid": "12"}, Counter()), strict=True))
    assert row["corpus_id"] == 12
    assert {name for name, value in row.items() if value} == {"corpus_id"}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"corpusid": None}, "no_corpusid"),
        ({"corpusid": "x"}, "bad_corpusid"),
        ({"corpusid": -1}, "bad_corpusid"),
        ({"corpusid": True}, "bad_corpusid"),
        ({"corpusid": 1.0}, "bad_corpusid"),
        ({"corpusid": 2**63}, "bad_corpusid"),
        ({"corpusid": "9" * 5000}, "bad_corpusid"),
    ],
)
def test_a_paper_that_cannot_be_used_has_a_reason(changes: Record, reason: str) -> None:
    with pytest.raises(BadInput, match=f"^{reason}$"):
        paper(**changes)


@pytest.mark.parametrize(
    ("changes", "column", "kept"),
    [
        ({"title": 5}, "title", None),
        ({"venue": ["A", "B"]}, "venue", None),
        ({"year": "MMXX"}, "year", None),
        ({"year": 2020.0}, "year", None),
        ({"year": 2**31}, "year", None),
        ({"referencecount": True}, "reference_count", None),
        ({"authors": "A. One"}, "authors", []),
        ({"authors": ["A. One", {"name": "B. Two"}, {"name": 5}]}, "authors", ["B. Two"]),
        ({"s2fieldsofstudy": {"category": "Physics"}}, "fields_of_study", []),
        ({"publicationtypes": [1, "Review", None]}, "publication_types", ["Review"]),
        ({"externalids": []}, "doi", None),
        ({"externalids": {"DOI": 10.5}}, "doi", None),
    ],
)
def test_a_mistyped_field_is_null_and_counted_and_the_paper_stays(changes: Record, column: str, kept: Any) -> None:
    notes: Counter[str] = Counter()
    row = dict(zip(PAPER_RECORDS.arrow.names, decode_paper(PAPER | changes, notes), strict=True))
    assert row == paper() | {column: kept}
    (field,) = changes
    assert notes == {f"mistyped:{'DOI' if changes == {'externalids': {'DOI': 10.5}} else field}": 1}


def test_a_field_that_is_not_read_may_have_any_type() -> None:
    notes: Counter[str] = Counter()
    assert decode_paper(PAPER | {"isopenaccess": "yes", "journal": 5, "externalids": {"MAG": 7}}, notes)[0] == 7
    assert notes == {}


@pytest.mark.parametrize("abstract", [None, "", " \n\t"])
def test_a_blank_abstract_is_none(abstract: str | None) -> None:
    assert decode_abstract({"corpusid": 1, "abstract": abstract}, Counter()) == (1, None)


def test_an_abstract_is_kept_as_it_is() -> None:
    assert decode_abstract({"corpusid": 1, "abstract": " two  words\n"}, Counter()) == (1, " two  words\n")


def test_a_citation_of_each_age() -> None:
    names = CITATION_RECORDS.arrow.names
    today = {"citationid": 5, "citingcorpusid": 1, "citedcorpusid": 2, "isinfluential": True, "contexts": None}
    assert dict(zip(names, decode_citation(today, Counter()), strict=True)) == {
        "citing_corpus_id": 1,
        "cited_corpus_id": 2,
        "is_influential": True,
        "citation_id": 5,
    }
    assert decode_citation({"citingcorpusid": "1", "citedcorpusid": "2"}, Counter()) == (1, 2, None, None)
    assert decode_citation({"citingcorpusid": 1, "citedcorpusid": None}, Counter()) == (1, None, None, None)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"citingcorpusid": None}, "no_citingcorpusid"),
        ({"citedcorpusid": "?"}, "bad_citedcorpusid"),
        ({"citationid": []}, "bad_citationid"),
    ],
)
def test_a_citation_that_cannot_be_used_has_a_reason(changes: Record, reason: str) -> None:
    with pytest.raises(BadInput, match=f"^{reason}$"):
        decode_citation({"citingcorpusid": 1, "citedcorpusid": 2} | changes, Counter())


def test_a_citation_and_an_abstract_keep_their_ids_when_another_field_is_mistyped() -> None:
    notes: Counter[str] = Counter()
    assert decode_citation({"citingcorpusid": 1, "citedcorpusid": 2, "isinfluential": "yes"}, notes) == (
        1,
        2,
        None,
        None,
    )
    assert decode_abstract({"corpusid": 1, "abstract": ["a"]}, notes) == (1, None)
    assert notes == {"mistyped:isinfluential": 1, "mistyped:abstract": 1}


@given(st.integers(0, 2**63 - 1))
def test_numeric_strings_are_numbers(number: int) -> None:
    assert read_integer(number) == read_integer(str(number)) == number


@given(st.one_of(st.text(), st.floats(), st.booleans(), st.none(), st.lists(st.integers())))
def test_nothing_else_is_a_number(value: object) -> None:
    digits = isinstance(value, str) and value != "" and set(value) <= set("0123456789") and len(value) <= 19
    assert (read_integer(value) is not None) == digits
