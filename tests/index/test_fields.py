"""The text of each field, and its index terms."""

from typing import Any

import pytest

from schemas.errors import BadInput
from schemas.identifiers import Field
from schemas.tables.full_texts import FULL_TEXTS
from tasks.index.analysis import analyze
from tasks.index.fields import Bucket, FieldText, field_texts
from tests.corpus.conftest import Corpus
from tests.index.conftest import give_documents

DOCUMENTS: list[dict[str, Any]] = [
    {"corpus_id": 1, "title": "Birds", "abstract": "They sing."},
    {"corpus_id": 2, "title": "Songs", "abstract": None},
    {"corpus_id": 3, "title": None, "abstract": "No title."},
    {"corpus_id": 4, "title": "  ", "abstract": ""},
]


@pytest.mark.parametrize(
    ("field", "texts"),
    [
        ("title", {1: "Birds", 2: "Songs"}),
        ("abstract", {1: "They sing.", 2: "Songs", 3: "No title."}),
        ("title_abstract", {1: "Birds. They sing.", 2: "Songs", 3: "No title."}),
    ],
)
def test_a_document_without_the_field_has_no_text(corpus: Corpus, field: Field, texts: dict[int, str]) -> None:
    path = corpus.store.open(give_documents(corpus, DOCUMENTS, buckets=1)).files()[0]
    assert dict(field_texts(field, Bucket(path))) == texts


def test_full_text_is_in_reading_order_and_only_of_documents(corpus: Corpus) -> None:
    documents = corpus.store.open(give_documents(corpus, DOCUMENTS, buckets=1)).files()[0]
    body = {
        "corpus_id": 1,
        "title": "Birds",
        "abstract": None,
        "sections": [
            {"number": "1", "heading": "Song"},
            {"number": "2", "heading": None},
            {"number": None, "heading": "End"},
        ],
        "paragraphs": [
            {"section": -1, "text": "Before."},
            {"section": 0, "text": "One."},
            {"section": 0, "text": " Two."},
        ],
    }
    rows = [body, {"corpus_id": 2}, {"corpus_id": 9, "title": "No document"}]
    full_texts = corpus.store.open(corpus.given("full_texts", {FULL_TEXTS: rows})).files()[0]
    texts = list(field_texts("text", Bucket(documents, full_texts)))
    assert texts == [FieldText(1, "Birds\nBefore.\nSong\nOne.\nTwo.\nEnd")]
    with pytest.raises(BadInput, match="full texts"):
        list(field_texts("text", Bucket(documents)))


def test_terms_are_lower_cased_runs_of_letters_and_digits() -> None:
    assert " ".join(analyze("Pre-trained LMs: a SURVEY, É 3.5 (don't)")) == "pre trained lms a survey é 3 5 don t"
    assert analyze('"+title:x^2 AND (OR*') == ["title", "x", "2", "and", "or"]
    assert analyze("half a pair \ud83d here") == ["half", "a", "pair", "here"]
    assert analyze("  \n") == []
    assert analyze("x " + "y" * 300) == ["x"]
