"""Nearest neighbour search over embeddings, exact or approximate."""

from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.errors import BadInput
from tasks.index.candidates import Mask, find_candidates
from tasks.index.encoder import Device, unit_rows
from tasks.index.faiss_index import GPU_ROUNDING, FaissIndex, load_faiss, put_on_gpus
from tasks.index.ranked import Ranked, first_in_order
from tasks.index.vectors import StoredVectors, Vectors, read_ids
from tasks.store.dataset import Dataset

IDS = "ids.npy"
INDEX = "faiss.index"

TOGETHER = 256
"""Queries that are compared with a block of vectors at once."""

NARROW = 0.1
"""Share of the documents up to which a filtered search of one query compares the allowed documents alone."""

RESCORED = 8192
"""Documents whose scores are recomputed at once."""

GPU_DEPTH = 2048
"""Maximum number of documents that FAISS returns from a GPU."""


class DenseIndex:
    """An index opened for search that ranks documents by cosine similarity, in the same order on every machine.

    Candidates are found in float32, by FAISS, or on a GPU. Their scores are then recomputed from the index's own
    vectors in float64 and rounded to float32, so that order and ties do not depend on the number of documents
    requested, on the queries of a batch, on threads, or on a GPU.

    Args:
        vectors: The vectors of the index.
        ids: `(n,) int64`, corpus_id by row; distinct.
        ann: An approximate index over the same rows; None: search is exact.
        gpu: The same vectors on GPUs, as a FAISS index; searched first, from one thread at a time.
    """

    def __init__(
        self, vectors: Vectors, ids: NDArray[np.int64], ann: FaissIndex | None = None, gpu: Any = None
    ) -> None:
        self._vectors = vectors
        self._ann = ann
        self._gpu = gpu
        self._gpu_lock = Lock()
        self.ids = ids
        self._by_id = np.argsort(ids)

    @classmethod
    def open(cls, embeddings: Dataset, *, device: Device = "auto") -> "DenseIndex":
        """Opens exact search over a dataset of stage `embeddings`, whose vectors stay on disk.

        Args:
            embeddings: The dataset; its vectors are normalised again in float32.
            device: `cuda` keeps a copy on the GPUs, each with an equal share; `auto` does so if there is one.

        Raises:
            MissingDependency: FAISS is not installed or finds no GPU, although `cuda` was requested.
        """
        vectors = StoredVectors.open(embeddings)
        gpu = None if device == "cpu" else put_on_gpus(vectors, required=device == "cuda")
        return cls(vectors, read_ids(embeddings), gpu=gpu)

    @classmethod
    def open_ann(cls, ann: Dataset) -> "DenseIndex":
        """Opens approximate search over a dataset of stage `ann`; it can miss documents that a deeper search finds.

        Raises:
            MissingDependency: FAISS is not installed.
        """
        index = FaissIndex(load_faiss().read_index(str(ann.path(INDEX))))
        return cls(index, np.load(ann.path(IDS)), index)

    @property
    def size(self) -> int:
        """Number of indexed documents."""
        return len(self.ids)

    @property
    def dimensions(self) -> int:
        """Components of a vector."""
        return self._vectors.dimensions

    def search(self, vector: NDArray[np.float32], n: int, kept: Mask | None = None) -> Ranked:
        """Returns the top `n` documents by cosine similarity.

        Args:
            vector: `(dim,) float32`, any norm > 0.
            n: Number of documents, >= 1.
            kept: `(size,) bool` in the order of `ids`; only documents that are True here are searched.

        Raises:
            BadInput: The vector has another length than those of the documents, is zero, or is not finite.
        """
        return self.search_many(np.asarray(vector)[None], n, [kept])[0]

    def search_many(
        self, vectors: NDArray[np.float32], n: int, kept: Sequence[Mask | None] | None = None
    ) -> list[Ranked]:
        """Returns the top `n` documents for each of several queries: what `search` returns for each of them.

        All queries are compared with a block of documents at once, which takes a fraction of the time. An approximate
        index is searched for one query after the other.

        Args:
            vectors: `(m, dim) float32`, any norms > 0.
            n: Number of documents, >= 1.
            kept: The filter of each query, as in `search`; None: no query has one.

        Raises:
            BadInput: The vectors have another length than those of the documents, or one is zero or not finite.
        """
        if vectors.shape[1:] != (self.dimensions,):
            raise BadInput(
                f"query vector has shape {vectors.shape[1:]}, but documents have vectors of {self.dimensions} "
                "components"
            )
        queries = unit_rows(np.asarray(vectors, np.float32))
        filters = list(kept or [None] * len(queries))
        if self._ann is not None:
            pairs = zip(queries, filters, strict=True)
            return [self._search_ann(self._ann, query[None], n, mask) for query, mask in pairs]
        found: list[Ranked] = []
        for start in range(0, len(queries), TOGETHER):
            found += self._search_group(queries[start : start + TOGETHER], n, filters[start : start + TOGETHER])
        return found

    def _search_group(self, queries: NDArray[np.float32], n: int, filters: Sequence[Mask | None]) -> list[Ranked]:
        found = self._search_gpu(queries, n, filters)
        left = [place for place, ranked in enumerate(found) if ranked is None]
        if left:
            masks = [filters[place] for place in left]
            candidates = (
                find_candidates(self._vectors, queries[left], n, masks)
                if len(left) > 1 or (chosen := self._narrow(masks[0])) is None
                else find_candidates(self._vectors, queries[left], n, [None], chosen)
            )
            for place, rows in zip(left, candidates, strict=True):
                found[place] = self._best(queries[place], rows, n)
        return [ranked for ranked in found if ranked is not None]

    def _search_gpu(self, queries: NDArray[np.float32], n: int, filters: Sequence[Mask | None]) -> list[Ranked | None]:
        """Returns the results that the GPUs' best documents decide: a GPU cannot filter before the search."""
        if self._gpu is None:
            return [None] * len(queries)
        with self._gpu_lock:
            _, best = self._gpu.search(queries, min(GPU_DEPTH, self.size))
        found: list[Ranked | None] = []
        for query, rows, mask in zip(queries, best, filters, strict=True):
            passed = self._best(query, rows if mask is None else rows[mask[rows]], n)
            last = self._rescored(query, rows[-1:]).scores[0] + GPU_ROUNDING
            sure = len(rows) == self.size or (len(passed.ids) == n and passed.scores[-1] > last)
            found.append(passed if sure else None)
        return found

    def _search_ann(self, ann: FaissIndex, query: NDArray[np.float32], n: int, mask: Mask | None) -> Ranked:
        size = self.size if mask is None else int(np.count_nonzero(mask))
        if not size:
            return Ranked.nothing()
        chosen = self._narrow(mask) if ann.approximate else None
        if chosen is None:
            fetch = ann.fetcher(query, mask)
            found = first_in_order(lambda depth: self._rescored(query[0], fetch(depth)), n, size, margin=ann.rounding)
            if not ann.approximate or len(found.ids) >= min(n, size):
                return found
            chosen = np.arange(self.size) if mask is None else np.flatnonzero(mask)  # it did not look everywhere
        return self._best(query[0], find_candidates(self._vectors, query, n, [None], chosen)[0], n)

    def _narrow(self, mask: Mask | None) -> NDArray[np.int64] | None:
        """Returns the allowed rows if they are so few that comparing them alone is cheaper; otherwise None."""
        few = mask is not None and np.count_nonzero(mask) <= NARROW * self.size
        return np.flatnonzero(mask) if mask is not None and few else None

    def _best(self, query: NDArray[np.float32], rows: NDArray[np.int64], n: int) -> Ranked:
        """Returns the top `n` of some rows."""
        parts = [self._rescored(query, rows[start : start + RESCORED]) for start in range(0, len(rows), RESCORED)]
        ids, scores = (np.concatenate(column) for column in zip(Ranked.nothing(), *parts, strict=True))
        ranked = Ranked(ids, scores).ordered()
        return Ranked(ranked.ids[:n], ranked.scores[:n])

    def _rescored(self, query: NDArray[np.float32], rows: NDArray[np.int64]) -> Ranked:
        """Returns rows with the scores that their own vectors give."""
        exact = (self._vectors.take(rows).astype(np.float64) * query.astype(np.float64)).sum(axis=1)
        return Ranked(self.ids[rows], exact.astype(np.float32))

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
        return unit_rows(self._vectors.take(self._by_id[at]))
