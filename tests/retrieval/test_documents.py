"""The catalogue, and reading documents in bounded memory."""

from datetime import date
from pathlib import Path

import numpy as np
import pytest

from schemas.errors import BadInput
from schemas.tables.documents import DOCUMENTS
from tasks.retrieval.documents import Document, DocumentReader, load_catalogue
from tasks.retrieval.retriever import NEVER
from tests.corpus.conftest import Corpus
from tests.index.conftest import give_documents


def test_the_catalogue_lists_every_document_by_id(tmp_path: Path) -> None:
    corpus = Corpus(tmp_path)
    rows = [
        {"corpus_id": 11, "date": date(1970, 1, 11)},
        {"corpus_id": 4, "date": None},
        {"corpus_id": 6, "date": date(1969, 12, 31)},
    ]
    documents = corpus.store.open(give_documents(corpus, rows, buckets=4))
    catalogue = load_catalogue(documents, corpus.store.open(corpus.accepted(6, 12, rejected=[4])))
    assert catalogue.ids.tolist() == [4, 6, 11]
    assert catalogue.days.tolist() == [NEVER, -1, 10]
    assert catalogue.surveys.tolist() == [False, True, False]
    with pytest.raises(BadInput, match="document 5"):
        catalogue.rows(np.array([4, 5, 11]))


def test_documents_are_read_by_id_from_any_row_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.store.parquet.ROW_GROUP", 10)
    monkeypatch.setattr("tasks.store.parquet.TableWriter.__init__.__kwdefaults__", {"row_group": 10, "level": 3})
    corpus = Corpus(tmp_path)
    rows = [{"corpus_id": 3 * i, "title": f"Title {i}", "abstract": None if i % 2 else "A" * 500} for i in range(100)]
    dataset = corpus.store.open(corpus.given("documents", {DOCUMENTS: rows}, 2))
    reader = DocumentReader(dataset, cache_bytes=20_000)
    asked = [297, 0, 150, 3, 150]
    expected = [Document(3 * i, f"Title {i}", None if i % 2 else "A" * 500) for i in (99, 0, 50, 1, 50)]
    assert reader.read(asked) == expected
    assert reader.read([]) == []
    assert len({row for rows in (reader.read([3 * i]) for i in range(100)) for row in rows}) == 100
    assert 1 <= len(reader._cache) < 10
    assert sum(table.nbytes for table in reader._cache.values()) <= 20_000
    for unknown in (1, 298, 10_000, -5):
        with pytest.raises(BadInput, match=f"document {unknown} is not in the corpus"):
            reader.read([0, unknown])
