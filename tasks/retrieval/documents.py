"""Loads the documents' dates for the leakage filter, and reads their titles and abstracts."""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from schemas.errors import BadInput
from schemas.identifiers import CorpusId
from tasks.retrieval.retriever import NEVER, Catalogue
from tasks.store.dataset import Dataset
from tasks.store.parquet import read_tables

CACHE_BYTES = 256 * 2**20
"""Bytes of decoded rows that a `DocumentReader` keeps."""


class Document(NamedTuple):
    """A document as a system may read it."""

    corpus_id: CorpusId
    title: str | None
    abstract: str | None


def load_catalogue(documents: Dataset, surveys: Dataset) -> Catalogue:
    """Loads the id and publication day of each document and whether it is a survey, in 13 bytes per document.

    Args:
        documents: Dataset of stage `documents`.
        surveys: Dataset of stage `surveys`; its accepted rows are surveys.
    """
    ids, days = [np.empty(0, np.int64)], [np.empty(0, np.int32)]
    for table in read_tables(documents.files(), columns=["corpus_id", "date"]):
        ids.append(table["corpus_id"].to_numpy())
        days.append(pc.fill_null(table["date"].cast(pa.int32()), int(NEVER)).to_numpy())
    merged = np.concatenate(ids)
    order = np.argsort(merged)
    verdicts = surveys.table(columns=["corpus_id", "accepted"])
    accepted = verdicts["corpus_id"].to_numpy()[verdicts["accepted"].to_numpy()]
    merged = merged[order]
    return Catalogue(merged, np.concatenate(days)[order], np.isin(merged, accepted))


class _RowGroup(NamedTuple):
    """One row group of one file."""

    bucket: int
    place: int


class DocumentReader:
    """Reads titles and abstracts by id, and caches decoded rows; threads may share a reader.

    Args:
        documents: Dataset of stage `documents`: one file per bucket, rows ascending by corpus_id.
        cache_bytes: Limit of the cache; the row group read last is always kept.
    """

    def __init__(self, documents: Dataset, cache_bytes: int = CACHE_BYTES) -> None:
        self._files = [pq.ParquetFile(path, memory_map=True) for path in documents.files()]
        self._starts = [list(_first_ids(file)) for file in self._files]
        self._cache: OrderedDict[_RowGroup, pa.Table] = OrderedDict()
        self._cache_bytes = cache_bytes
        self._lock = Lock()

    def read(self, ids: Sequence[int]) -> list[Document]:
        """Returns the documents in the order of `ids`.

        Raises:
            BadInput: An id is not in the corpus.
        """
        found: dict[int, Document] = {}
        by_group: dict[_RowGroup, list[int]] = {}
        for corpus_id in dict.fromkeys(map(int, ids)):
            bucket = corpus_id % len(self._files)
            place = bisect_right(self._starts[bucket], corpus_id) - 1
            if place < 0:
                raise _unknown(corpus_id)
            by_group.setdefault(_RowGroup(bucket, place), []).append(corpus_id)
        with self._lock:
            for group, members in by_group.items():
                found.update(self._read_members(group, members))
        return [found[int(corpus_id)] for corpus_id in ids]

    def _read_members(self, group: _RowGroup, members: list[int]) -> dict[int, Document]:
        rows = self._rows(group)
        known = rows["corpus_id"].to_numpy()
        places = np.minimum(np.searchsorted(known, members), len(known) - 1)
        for corpus_id, place in zip(members, places, strict=True):
            if known[place] != corpus_id:
                raise _unknown(corpus_id)
        return {row["corpus_id"]: Document(**row) for row in rows.take(places).to_pylist()}

    def _rows(self, group: _RowGroup) -> pa.Table:
        if group not in self._cache:
            table = self._files[group.bucket].read_row_group(group.place, columns=list(Document._fields))
            self._cache[group] = table.combine_chunks()
            while len(self._cache) > 1 and sum(table.nbytes for table in self._cache.values()) > self._cache_bytes:
                self._cache.popitem(last=False)
        self._cache.move_to_end(group)
        return self._cache[group]


def _first_ids(file: pq.ParquetFile) -> Iterator[int]:
    """Yields the first corpus_id of every row group."""
    metadata = file.metadata
    column = file.schema_arrow.get_field_index("corpus_id")
    for place in range(metadata.num_row_groups):
        yield metadata.row_group(place).column(column).statistics.min


def _unknown(corpus_id: int) -> BadInput:
    return BadInput(f"document {corpus_id} is not in the corpus; request only ids that a search returned")
