"""Nearest neighbour search over embeddings with FAISS, exact or approximate."""

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from schemas.errors import BadInput, MissingDependency
from tasks.index.embeddings import vector_rows
from tasks.index.encoder import Device, unit_rows
from tasks.index.ranked import Ranked, first_in_order
from tasks.store.dataset import Dataset

IDS = "ids.npy"
INDEX = "faiss.index"
ROWS = 65_536
"""Embeddings read at once."""

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
        size = self.size if kept is None else int(kept.sum())
        if not size:
            return Ranked.nothing()
        return first_in_order(lambda depth: self._fetch(query, depth, kept), n, size, margin=self._rounding)

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
        exact = (self._index.reconstruct_batch(rows).astype(np.float64) * query.astype(np.float64)).sum(axis=1)
        return Ranked(self.ids[rows], exact.astype(np.float32))

    def _gpu_rows(
        self, query: NDArray[np.float32], depth: int, kept: NDArray[np.bool_] | None
    ) -> NDArray[np.int64] | None:
        """Returns the best `depth` rows from the GPU, or None if it has too few: it cannot filter before the search."""
        if self._accelerated is None:
            return None
        _, found = self._accelerated.search(query, min(GPU_DEPTH, self.size))
        rows = found[0] if kept is None else found[0][kept[found[0]]]
        return rows[:depth] if len(rows) >= depth or len(found[0]) == self.size else None

    def _parameters(self, depth: int, kept: NDArray[np.bool_] | None) -> Any:
        faiss = self._faiss
        selector = None if kept is None else faiss.IDSelectorBitmap(np.packbits(kept, bitorder="little"))
        if isinstance(self._index, faiss.IndexIVF):
            return faiss.SearchParametersIVF(sel=selector, nprobe=self._index.nprobe)
        if isinstance(self._index, faiss.IndexHNSW):
            return faiss.SearchParametersHNSW(sel=selector, efSearch=max(self._index.hnsw.efSearch, depth))
        return faiss.SearchParameters(sel=selector)


def embedding_batches(embeddings: Dataset) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """Yields ids `(n,)` and unit vectors `(n, dim) float32` of a dataset of stage `embeddings` in batches."""
    for path in embeddings.files():
        for batch in pq.ParquetFile(path).iter_batches(ROWS, columns=["corpus_id", "vector"]):
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
