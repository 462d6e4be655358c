"""The catalogue, and reading documents in bounded memory."""

from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from threading import Barrier

import numpy as np
import pyarrow as pa
import pytest

from schemas.errors import BadInput
from schemas.tables.documents import DOCUMENTS
from tasks.retrieval.documents import Document, DocumentReader, load_catalogue
from tasks.retrieval.retriever import NEVER
from tasks.store.parquet import ParquetReader
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
    sizes = {"row_group": 10, "level": 3, "repeats": False}
    monkeypatch.setattr("tasks.store.parquet.TableWriter.__init__.__kwdefaults__", sizes)
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
    assert reader._cached_bytes == sum(table.nbytes for table in reader._cache.values())
    for unknown in (1, 298, 10_000, -5):
        with pytest.raises(BadInput, match=f"document {unknown} is not in the corpus"):
            reader.read([0, unknown])


def test_threads_decode_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = Corpus(tmp_path)
    rows = [{"corpus_id": i, "title": f"Title {i}", "abstract": None} for i in range(4)]
    reader = DocumentReader(corpus.store.open(corpus.given("documents", {DOCUMENTS: rows}, 2)))
    both = Barrier(2, timeout=5)  # passes when two threads are decoding at the same time
    decode = ParquetReader.read_row_group

    def meet(self: ParquetReader, *args: object, **options: object) -> pa.Table:
        both.wait()
        return decode(self, *args, **options)

    monkeypatch.setattr(ParquetReader, "read_row_group", meet)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(reader.read, [[0], [1]]))
    assert found == [[Document(0, "Title 0", None)], [Document(1, "Title 1", None)]]
