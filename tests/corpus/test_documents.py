"""The corpus rule, and the limit that keeps what topics need."""

import pyarrow.parquet as pq
import pytest

from schemas.errors import BadInput
from schemas.manifest import Ref
from schemas.tables.documents import DOCUMENTS, DetailRow
from schemas.tables.papers import PAPERS
from schemas.tables.references import REFERENCES
from tasks.corpus.details import details
from tasks.corpus.documents import ROW_GROUP, DocumentSettings, documents
from tasks.retrieval.documents import RowReader
from tests.corpus.conftest import Corpus

PAPERS_ROWS = [
    {"corpus_id": 1, "title": "Rain", "abstract": "On rain.", "has_full_text": True},
    {"corpus_id": 2, "title": "Snow", "abstract": "On snow."},
    {"corpus_id": 3, "title": "Hail", "has_full_text": True},
    {"corpus_id": 4, "abstract": "Untitled."},
]


def many_papers(corpus: Corpus) -> Ref:
    rows = [{"corpus_id": i, "title": "t", "abstract": "a" if i % 5 else None} for i in range(100)]
    return corpus.given("papers", {PAPERS: rows}, buckets=3)


def kept(corpus: Corpus, limit: int, cited: list[int | None]) -> set[int]:
    rows = [{"survey_id": 1, "cited_id": i, "linking": "both", "used": True} for i in cited]
    refs = corpus.given("references", {REFERENCES: rows})
    settings = DocumentSettings(corpus="abstract", limit=limit)
    built = corpus.build(documents, settings, papers=many_papers(corpus), references=refs)
    assert built.manifest.counts.dropped == {
        "no_title_or_abstract": 20,
        "limit": 80 - built.manifest.counts.kept,
    }
    return set(built.table()["corpus_id"].to_pylist())


@pytest.mark.parametrize(
    ("rule", "expected", "dropped"),
    [("full_text", [1, 3], {"no_full_text": 2}), ("abstract", [1, 2], {"no_title_or_abstract": 2})],
)
def test_the_corpus_rule_selects_documents(corpus: Corpus, rule: str, expected: list[int], dropped: dict[str, int]):
    papers = corpus.given("papers", {PAPERS: PAPERS_ROWS})
    built = corpus.build(documents, DocumentSettings.model_validate({"corpus": rule}), papers=papers)
    assert built.table()["corpus_id"].to_pylist() == expected
    assert (built.manifest.counts.read, built.manifest.counts.kept) == (4, 2)
    assert built.manifest.counts.dropped == dropped


def test_as_many_buckets_as_papers_even_if_empty(corpus: Corpus):
    papers = corpus.given("papers", {PAPERS: PAPERS_ROWS}, buckets=5)
    built = corpus.build(documents, papers=papers)
    assert [file.rows for file in built.manifest.files] == [0, 1, 0, 1, 0]


def test_limit_keeps_every_cited_document_and_no_other_beyond_it(corpus: Corpus):
    assert kept(corpus, 3, [7, 8, 9, 11, 10, None, 4711]) == {7, 8, 9, 11}
    assert {7, 8} < (ten := kept(corpus, 10, [7, 8]))
    assert len(ten) == 10


def test_larger_limit_adds_documents_and_removes_none(corpus: Corpus):
    assert kept(corpus, 20, [7]) < kept(corpus, 40, [7])
    assert len(kept(corpus, 500, [7])) == 80


def test_details_are_read_in_small_row_groups_and_are_those_of_the_documents(corpus: Corpus):
    rows = [
        {"corpus_id": i, "title": "t", "abstract": "a" if i % 5 else None, "venue": f"V {i}", "authors": [f"A {i}"]}
        for i in range(1500)
    ]
    papers = corpus.given("papers", {PAPERS: rows}, buckets=2)
    chosen = corpus.given("documents", {DOCUMENTS: [{"corpus_id": i} for i in range(1500) if i % 5]}, buckets=2)
    built = corpus.build(details, documents=chosen, papers=papers)
    assert built.table().num_rows == 1200
    groups = [pq.read_metadata(path).row_group(0).num_rows for path in built.files()]
    assert groups == [ROW_GROUP] * 2
    reader = RowReader(built, DetailRow)
    assert reader.read([1499, 1, 2]) == [(1499, "V 1499", ["A 1499"]), (1, "V 1", ["A 1"]), (2, "V 2", ["A 2"])]
    with pytest.raises(BadInput, match="document 5 is not in the corpus"):
        reader.read([5])
