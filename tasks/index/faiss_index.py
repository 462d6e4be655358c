"""FAISS's indexes: approximate ones opened for search, and exact ones on GPUs."""

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.errors import MissingDependency
from tasks.index.candidates import BLOCK, Mask
from tasks.index.vectors import ROUNDING, Block, Vectors

GPU_ROUNDING = 2e-3
"""Twice the largest error of a cosine on a GPU, where the vectors and the query are rounded to float16."""


def load_faiss() -> Any:
    """Imports and returns the module `faiss`.

    Raises:
        MissingDependency: It is not installed.
    """
    try:
        return import_module("faiss")
    except ImportError as error:
        raise MissingDependency(
            "approximate indexes and search on a GPU need faiss: pip install 'research-arena[dense]'"
        ) from error


class FaissIndex:
    """A FAISS index of unit vectors by inner product; also the vectors that it holds, as `Vectors`.

    Args:
        index: The index.
    """

    rounding = ROUNDING

    def __init__(self, index: Any) -> None:
        self._faiss = load_faiss()
        self._index = index
        if isinstance(index, self._faiss.IndexIVF):
            index.make_direct_map()

    @property
    def size(self) -> int:
        """Number of vectors."""
        return self._index.ntotal

    @property
    def dimensions(self) -> int:
        """Components of a vector."""
        return self._index.d

    @property
    def approximate(self) -> bool:
        """Whether a search may miss documents: it does not look at all of them."""
        return isinstance(self._index, (self._faiss.IndexIVF, self._faiss.IndexHNSW))

    def take(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Returns the vectors of some rows as the index holds them, `(n, dim) float32`."""
        return self._index.reconstruct_batch(rows)

    def blocks(self, size: int, chosen: NDArray[np.int64] | None = None) -> Iterator[Block]:
        """Yields the vectors in blocks, see `Vectors`."""
        rows = np.arange(self.size) if chosen is None else chosen
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            yield Block(part, self.take(part))

    def fetcher(self, query: NDArray[np.float32], kept: Mask | None) -> Callable[[int], NDArray[np.int64]]:
        """Returns a function that finds the best allowed rows for a query `(1, dim)`, at most as many as it is told."""
        selector = None if kept is None else self._faiss.IDSelectorBitmap(np.packbits(kept, bitorder="little"))
        # A filter hides documents on the way; so much wider a search finds as many allowed ones as without it.
        wider = 1.0 if kept is None else self.size / max(1, int(np.count_nonzero(kept)))

        def fetch(depth: int) -> NDArray[np.int64]:
            _, found = self._index.search(query, depth, params=self._parameters(depth, selector, wider))
            return found[0][found[0] >= 0]

        return fetch

    def _parameters(self, depth: int, selector: Any, wider: float) -> Any:
        faiss = self._faiss
        if isinstance(self._index, faiss.IndexIVF):
            cells = min(self._index.nlist, int(self._index.nprobe * wider))
            return faiss.SearchParametersIVF(sel=selector, nprobe=cells)
        if isinstance(self._index, faiss.IndexHNSW):
            seen = int(max(self._index.hnsw.efSearch, depth) * wider)
            return faiss.SearchParametersHNSW(sel=selector, efSearch=seen)
        return faiss.SearchParameters(sel=selector)


def put_on_gpus(vectors: Vectors, *, required: bool = False) -> Any:
    """Returns an exact FAISS index in float16 over all GPUs, each with an equal share; None where there is no GPU.

    Args:
        vectors: What to copy, a block at a time.
        required: Whether a GPU was asked for.

    Raises:
        MissingDependency: A GPU is required, and FAISS is not installed or finds none.
    """
    try:
        faiss = load_faiss()
    except MissingDependency:
        if required:
            raise
        return None
    gpus = faiss.get_num_gpus() if hasattr(faiss, "get_num_gpus") else 0
    if required and not gpus:
        raise MissingDependency("device cuda: faiss finds no GPU; pip install 'research-arena[gpu]' or use device cpu")
    return share_out(faiss, vectors, [_gpu_part(faiss, vectors.dimensions, gpu) for gpu in range(gpus)])


def share_out(faiss: Any, vectors: Vectors, parts: list[Any]) -> Any:
    """Returns one index over several empty ones, each of which gets an equal share of the vectors in order.

    Returns:
        The index, whose rows are those of `vectors`; None without parts.
    """
    if not parts:
        return None
    shards = faiss.IndexShards(vectors.dimensions, True, True)  # a thread searches each; rows go on from part to part
    ends = np.linspace(0, vectors.size, len(parts) + 1).astype(int)[1:]
    for rows, block in vectors.blocks(BLOCK):
        for part, held in zip(parts, np.split(block, np.searchsorted(rows, ends[:-1])), strict=True):
            if len(held):
                part.add(held)
    for part in parts:
        shards.add_shard(part)
    return shards


def _gpu_part(faiss: Any, dimensions: int, gpu: int) -> Any:
    settings = faiss.GpuIndexFlatConfig()
    settings.device, settings.useFloat16 = gpu, True
    return faiss.GpuIndexFlatIP(faiss.StandardGpuResources(), dimensions, settings)
