"""Loads the documents' dates for the leakage filter, and reads their titles and abstracts."""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from threading import Lock, local
from typing import Any, Generic, NamedTuple, TypeVar, get_type_hints

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from schemas.errors import BadInput
from schemas.identifiers import CorpusId
from tasks.retrieval.retriever import NEVER, Catalogue
from tasks.store.dataset import Dataset
from tasks.store.parquet import ParquetReader, read_tables

CACHE_BYTES = 256 * 2**20
"""Bytes of decoded rows that a `DocumentReader` keeps."""


class Document(NamedTuple):
    """A document as a system may read it."""

    corpus_id: CorpusId
    title: str | None
    abstract: str | None

    @property
    def text(self) -> str:
        """Title and abstract."""
        return f"{self.title or ''} {self.abstract or ''}"


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


class _Opened(local):
    """The files that a thread has opened, by bucket."""

    def __init__(self) -> None:
        self.files: dict[int, ParquetReader] = {}


RowT = TypeVar("RowT", bound=tuple[Any, ...])


class RowReader(Generic[RowT]):
    """Reads rows of papers by id, and caches what it decoded; threads that share a reader decode side by side.

    Args:
        dataset: One file per bucket, rows ascending by corpus_id.
        row: NamedTuple of the columns to read; the first is `corpus_id`.
        cache_bytes: Limit of the cache; the row group read last is always kept.
    """

    def __init__(self, dataset: Dataset, row: type[RowT], cache_bytes: int = CACHE_BYTES) -> None:
        self._row = row
        self._columns = list(get_type_hints(row))
        self._paths = dataset.files()
        self._metadata = [pq.read_metadata(path) for path in self._paths]
        self._starts = [list(_first_ids(metadata)) for metadata in self._metadata]
        self._cache: OrderedDict[_RowGroup, pa.Table] = OrderedDict()
        self._cached_bytes = 0
        self._cache_bytes = cache_bytes
        self._lock = Lock()  # of the cache; it is not held while rows are decoded
        self._opened = _Opened()

    def read(self, ids: Sequence[int]) -> list[RowT]:
        """Returns the rows in the order of `ids`.

        Raises:
            BadInput: An id is not in the corpus.
        """
        found: dict[int, RowT] = {}
        by_group: dict[_RowGroup, list[int]] = {}
        for corpus_id in dict.fromkeys(map(int, ids)):
            bucket = corpus_id % len(self._paths)
            place = bisect_right(self._starts[bucket], corpus_id) - 1
            if place < 0:
                raise _unknown(corpus_id)
            by_group.setdefault(_RowGroup(bucket, place), []).append(corpus_id)
        for group, members in by_group.items():
            found.update(self._read_members(group, members))
        return [found[int(corpus_id)] for corpus_id in ids]

    def _read_members(self, group: _RowGroup, members: list[int]) -> dict[int, RowT]:
        rows = self._rows(group)
        known = rows["corpus_id"].to_numpy()
        places = np.minimum(np.searchsorted(known, members), len(known) - 1)
        for corpus_id, place in zip(members, places, strict=True):
            if known[place] != corpus_id:
                raise _unknown(corpus_id)
        return {row["corpus_id"]: self._row(**row) for row in rows.take(places).to_pylist()}

    def _rows(self, group: _RowGroup) -> pa.Table:
        with self._lock:
            if group in self._cache:
                self._cache.move_to_end(group)
                return self._cache[group]
        file = self._file(group.bucket)
        rows = file.read_row_group(group.place, columns=self._columns, use_threads=False).combine_chunks()
        with self._lock:
            if group not in self._cache:
                self._cache[group] = rows
                self._cached_bytes += rows.nbytes
            while len(self._cache) > 1 and self._cached_bytes > self._cache_bytes:
                self._cached_bytes -= self._cache.popitem(last=False)[1].nbytes
        return rows

    def _file(self, bucket: int) -> ParquetReader:
        """Returns this thread's opened file of a bucket: threads cannot read through the same one at once."""
        opened = self._opened.files
        if bucket not in opened:
            opened[bucket] = ParquetReader(self._paths[bucket], metadata=self._metadata[bucket], memory_map=True)
        return opened[bucket]


class DocumentReader(RowReader[Document]):
    """Reads titles and abstracts by id.

    Args:
        documents: Dataset of stage `documents`.
        cache_bytes: Limit of the cache.
    """

    def __init__(self, documents: Dataset, cache_bytes: int = CACHE_BYTES) -> None:
        super().__init__(documents, Document, cache_bytes)


def _first_ids(metadata: pq.FileMetaData) -> Iterator[int]:
    """Yields the first corpus_id of every row group."""
    column = metadata.schema.names.index("corpus_id")
    for place in range(metadata.num_row_groups):
        yield metadata.row_group(place).column(column).statistics.min


def _unknown(corpus_id: int) -> BadInput:
    return BadInput(f"document {corpus_id} is not in the corpus; request only ids that a search returned")
