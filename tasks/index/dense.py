"""Nearest neighbour search over embeddings with FAISS, exact or approximate."""

from collections.abc import Iterator, Sequence
from importlib import import_module
from math import ceil, inf, log2
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from schemas.errors import BadInput, MissingDependency
from tasks.index.embeddings import vector_rows
from tasks.index.encoder import Device, unit_rows
from tasks.index.ranked import SLACK, Ranked, first_in_order
from tasks.store.dataset import Dataset
from tasks.store.parquet import ParquetReader

IDS = "ids.npy"
INDEX = "faiss.index"
ROWS = 65_536
"""Embeddings read at once."""

BATCH_DEPTH = 1024
"""Maximum number of documents fetched for a query of a batch; a filter that needs more is searched by itself."""

NARROW = 0.1
"""Share of the documents up to which a filtered search of an approximate index compares all allowed documents."""

COMPARED = 8192
"""Documents compared at once where all allowed ones are."""

GPU_DEPTH = 2048
"""Maximum number of documents that FAISS returns from a GPU."""

ROUNDING = 1e-5
"""Twice the largest error of a cosine in float32; on a GPU in float16 it is `HALF_ROUNDING`."""

HALF_ROUNDING = 1e-3


def load_faiss() -> Any:
    """Imports and returns the module `faiss`.

    Raises:
        MissingDependency: It is not installed.
    """
    try:
        return import_module("faiss")
    except ImportError as error:
        raise MissingDependency("dense retrieval needs faiss: pip install 'research-arena[dense]'") from error


class DenseIndex:
    """An index opened for search that ranks documents by cosine similarity, in the same order on every machine.

    FAISS finds candidates. Their scores are then recomputed from the index's own vectors in float64 and rounded to
    float32, so that order and ties do not depend on the number of documents requested, on threads, or on a GPU.

    Args:
        index: A FAISS index of unit vectors by inner product.
        ids: `(n,) int64`, corpus_id by FAISS row; distinct.
        accelerated: The same vectors on a GPU; searched first.
        rounding: Twice the largest error of a cosine from FAISS.
    """

    def __init__(self, index: Any, ids: NDArray[np.int64], accelerated: Any = None, rounding: float = ROUNDING) -> None:
        self._faiss = load_faiss()
        self._index = index
        self._accelerated = accelerated
        self._rounding = rounding
        self.ids = ids
        self._by_id = np.argsort(ids)
        self._gpu_lock = Lock()
        if isinstance(index, self._faiss.IndexIVF):
            index.make_direct_map()

    @classmethod
    def open(cls, embeddings: Dataset, *, half: bool = False, device: Device = "auto") -> "DenseIndex":
        """Opens exact search over a dataset of stage `embeddings`, with 4 bytes of memory per component.

        Args:
            embeddings: The dataset; its vectors are normalised again in float32.
            half: Use 2 bytes per component: vectors are rounded to float16, and scores change by less than 1e-3.
            device: `cuda` keeps a copy on the GPU; `auto` does so if there is one.

        Raises:
            MissingDependency: FAISS is not installed, or finds no GPU although `cuda` was requested.
        """
        faiss = load_faiss()
        dimensions = pq.read_schema(embeddings.files()[0]).field("vector").type.list_size
        quantizer = faiss.ScalarQuantizer.QT_fp16
        index = (
            faiss.IndexScalarQuantizer(dimensions, quantizer, faiss.METRIC_INNER_PRODUCT)
            if half
            else faiss.IndexFlatIP(dimensions)
        )
        ids = add_embeddings(index, embeddings)
        accelerated = _on_gpu(faiss, index, half, device)
        return cls(index, ids, accelerated, ROUNDING if accelerated is None or not half else HALF_ROUNDING)

    @classmethod
    def open_ann(cls, ann: Dataset) -> "DenseIndex":
        """Opens approximate search over a dataset of stage `ann`; it can miss documents that a deeper search finds."""
        faiss = load_faiss()
        index = faiss.read_index(str(ann.path(INDEX)))
        return cls(index, np.load(ann.path(IDS)))

    @property
    def size(self) -> int:
        """Number of indexed documents."""
        return len(self.ids)

    @property
    def approximate(self) -> bool:
        """Whether a search may miss documents: it does not look at all of them."""
        return isinstance(self._index, (self._faiss.IndexIVF, self._faiss.IndexHNSW))

    @property
    def dimensions(self) -> int:
        """Components of a vector."""
        return self._index.d

    def search(self, vector: NDArray[np.float32], n: int, kept: NDArray[np.bool_] | None = None) -> Ranked:
        """Returns the top `n` documents by cosine similarity.

        Args:
            vector: `(dim,) float32`, any norm > 0.
            n: Number of documents, >= 1.
            kept: `(size,) bool` in the order of `ids`; only documents that are True here are searched.

        Raises:
            BadInput: The vector has another length than those of the documents, is zero, or is not finite.
        """
        if vector.shape != (self.dimensions,):
            raise BadInput(
                f"query vector has shape {vector.shape}, but documents have vectors of {self.dimensions} components"
            )
        query = unit_rows(np.asarray(vector, np.float32)[None, :])
        size = self.size if kept is None else _count(kept)
        if not size:
            return Ranked.nothing()
        if kept is not None and self.approximate and size <= NARROW * self.size:
            return self._compare_all(query, n, np.flatnonzero(kept))
        found = first_in_order(lambda depth: self._fetch(query, depth, kept), n, size, margin=self._rounding)
        if self.approximate and len(found.ids) < min(n, size):  # it did not look everywhere
            return self._compare_all(query, n, np.arange(self.size) if kept is None else np.flatnonzero(kept))
        return found

    def search_many(
        self, vectors: NDArray[np.float32], n: int, kept: Sequence[NDArray[np.bool_] | None] | None = None
    ) -> list[Ranked]:
        """Returns the top `n` documents for each of several queries: what `search` returns for each of them.

        All queries are compared with the documents at once, which takes a fraction of the time. A query whose filter
        allows so few documents that the best of all rarely pass it is searched by itself.

        Args:
            vectors: `(m, dim) float32`, any norms > 0.
            n: Number of documents, >= 1.
            kept: The filter of each query, as in `search`; None: no query has one.

        Raises:
            BadInput: The vectors have another length than those of the documents, or one is zero or not finite.
        """
        filters = kept or [None] * len(vectors)
        sizes = [self.size if mask is None else _count(mask) for mask in filters]
        found: list[Ranked | None] = [None] * len(vectors)
        for depth, members in _by_depth(n, sizes, self.size).items():
            queries = unit_rows(np.asarray(vectors[members], np.float32))
            if self.approximate or self._accelerated is not None or queries.shape[1] != self.dimensions:
                continue
            _, rows = self._index.search(queries, depth)
            for place, query, best in zip(members, queries, rows, strict=True):
                mask = filters[place]
                passed = best if mask is None else best[mask[best]]
                found[place] = self._first_sure(query[None], n, passed, sizes[place])
        return [
            ranked or self.search(vector, n, mask) for ranked, vector, mask in zip(found, vectors, filters, strict=True)
        ]

    def _first_sure(self, query: NDArray[np.float32], n: int, rows: NDArray[np.int64], size: int) -> Ranked | None:
        """Returns the top `n` of `size` documents from the best `rows` of them, or None if they are too few."""
        enough = min(n + SLACK, size)
        if len(rows) < enough or not enough:
            return None
        ranked = self._rescored(query, rows[:enough]).ordered()
        if enough < size and not ranked.scores[n - 1] > ranked.scores[-1] + self._rounding:
            return None
        return Ranked(ranked.ids[:n], ranked.scores[:n])

    def _compare_all(self, query: NDArray[np.float32], n: int, rows: NDArray[np.int64]) -> Ranked:
        """Returns the top `n` of some rows by comparing all of them, some at a time."""
        best = Ranked.nothing()
        for start in range(0, len(rows), COMPARED):
            found = self._rescored(query, rows[start : start + COMPARED])
            merged = Ranked(np.concatenate([best.ids, found.ids]), np.concatenate([best.scores, found.scores]))
            ranked = merged.ordered()
            best = Ranked(ranked.ids[:n], ranked.scores[:n])
        return best

    def vectors(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """Returns unit vectors of documents, `(n, dim) float32`, in the order of `ids`.

        Raises:
            BadInput: A document has no embedding.
        """
        asked = np.asarray(ids, np.int64)
        at = np.searchsorted(self.ids, asked, sorter=self._by_id)
        known = at < self.size
        known[known] = self.ids[self._by_id[at[known]]] == asked[known]
        if not known.all():
            raise BadInput(f"document {asked[~known][0]} has no embedding in this index")
        rows = self._by_id[at]
        return unit_rows(self._index.reconstruct_batch(rows))

    def _fetch(self, query: NDArray[np.float32], depth: int, kept: NDArray[np.bool_] | None) -> Ranked:
        """Returns the best `depth` documents by FAISS, with recomputed scores."""
        rows = self._gpu_rows(query, depth, kept)
        if rows is None:
            _, found = self._index.search(query, depth, params=self._parameters(depth, kept))
            rows = found[0][found[0] >= 0]
        return self._rescored(query, rows)

    def _rescored(self, query: NDArray[np.float32], rows: NDArray[np.int64]) -> Ranked:
        """Returns rows with the scores that their own vectors give."""
        exact = (self._index.reconstruct_batch(rows).astype(np.float64) * query.astype(np.float64)).sum(axis=1)
        return Ranked(self.ids[rows], exact.astype(np.float32))

    def _gpu_rows(
        self, query: NDArray[np.float32], depth: int, kept: NDArray[np.bool_] | None
    ) -> NDArray[np.int64] | None:
        """Returns the best `depth` rows from the GPU, or None if it has too few: it cannot filter before the search."""
        if self._accelerated is None:
            return None
        with self._gpu_lock:  # FAISS searches on a GPU from one thread at a time
            _, found = self._accelerated.search(query, min(GPU_DEPTH, self.size))
        rows = found[0] if kept is None else found[0][kept[found[0]]]
        return rows[:depth] if len(rows) >= depth or len(found[0]) == self.size else None

    def _parameters(self, depth: int, kept: NDArray[np.bool_] | None) -> Any:
        faiss = self._faiss
        selector = None if kept is None else faiss.IDSelectorBitmap(np.packbits(kept, bitorder="little"))
        wider = (
            1.0 if kept is None else self.size / _count(kept)
        )  # to find as many allowed documents as without a filter
        if isinstance(self._index, faiss.IndexIVF):
            cells = min(self._index.nlist, int(self._index.nprobe * wider))
            return faiss.SearchParametersIVF(sel=selector, nprobe=cells)
        if isinstance(self._index, faiss.IndexHNSW):
            seen = int(max(self._index.hnsw.efSearch, depth) * wider)
            return faiss.SearchParametersHNSW(sel=selector, efSearch=seen)
        return faiss.SearchParameters(sel=selector)


def _count(mask: NDArray[np.bool_]) -> int:
    return int(np.count_nonzero(mask))


def _by_depth(n: int, sizes: Sequence[int], size: int) -> dict[int, list[int]]:
    """Returns which queries to search together, by the number of documents to fetch so that `n` are allowed ones.

    Depths are powers of two, so that few searches serve all; queries that would need too much are left out.

    Args:
        n: Number of documents requested.
        sizes: Documents that each query's filter allows.
        size: All documents.
    """
    groups: dict[int, list[int]] = {}
    for place, allowed in enumerate(sizes):
        wanted = 1.2 * (n + SLACK) * size / allowed + SLACK if allowed else inf
        if wanted <= BATCH_DEPTH + 2 * n:
            groups.setdefault(min(size, 1 << ceil(log2(wanted))), []).append(place)
    return groups


def embedding_batches(embeddings: Dataset) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """Yields ids `(n,)` and unit vectors `(n, dim) float32` of a dataset of stage `embeddings` in batches."""
    for path in embeddings.files():
        for batch in ParquetReader(path).iter_batches(ROWS, columns=["corpus_id", "vector"]):
            table = pa.Table.from_batches([batch])
            yield table["corpus_id"].to_numpy(), unit_rows(vector_rows(table["vector"]).astype(np.float32))


def add_embeddings(index: Any, embeddings: Dataset) -> NDArray[np.int64]:
    """Adds all vectors of a dataset to a FAISS index and returns the corpus_ids of its rows."""
    ids = [np.empty(0, np.int64)]
    for batch, vectors in embedding_batches(embeddings):
        index.add(vectors)
        ids.append(batch)
    return np.concatenate(ids)


def _on_gpu(faiss: Any, index: Any, half: bool, device: Device) -> Any:
    """Returns a copy of an exact index on the first GPU, or None without a GPU or with `device` cpu."""
    found = faiss.get_num_gpus() if hasattr(faiss, "get_num_gpus") else 0
    if device == "cpu" or (device == "auto" and not found):
        return None
    if not found:
        raise MissingDependency("device cuda: faiss finds no GPU; pip install 'research-arena[gpu]' or use device cpu")
    options = faiss.GpuClonerOptions()
    options.useFloat16 = half
    return faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), 0, index, options)
