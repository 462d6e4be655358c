"""Finds the documents that may be among the best for many queries: one matrix product per block of vectors."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tasks.index.vectors import Vectors, multiply

BLOCK, SMALL_BLOCK = 16_384, 2048
"""Vectors compared at once: with many queries, and with few, when decoded vectors should stay in the cache."""

FEW = 8
"""Number of queries up to which blocks are small."""

Mask = NDArray[np.bool_]


class _Best:
    """The best rows for a query so far.

    Args:
        n: How many rows are wanted.
        margin: Scores that are lower than the n-th best by no more than this are kept too.
    """

    def __init__(self, n: int, margin: float) -> None:
        self._n, self._margin = n, margin
        self._rows: list[NDArray[np.int64]] = []
        self._scores: list[NDArray[np.float32]] = []
        self._held = 0
        self.floor = -np.inf

    def add(self, rows: NDArray[np.int64], scores: NDArray[np.float32]) -> None:
        """Takes rows with scores of at least `floor`, and raises the floor when there are many."""
        self._rows.append(rows)
        self._scores.append(scores)
        self._held += len(rows)
        if self._held >= 2 * self._n:
            self._prune()

    def _prune(self) -> None:
        rows, scores = np.concatenate(self._rows), np.concatenate(self._scores)
        if len(rows) > self._n:
            self.floor = float(np.partition(scores, -self._n)[-self._n]) - self._margin
            kept = scores >= self.floor
            rows, scores = rows[kept], scores[kept]
        self._rows, self._scores, self._held = [rows], [scores], len(rows)

    def rows(self) -> NDArray[np.int64]:
        """Returns the rows that may be among the n best, in any order."""
        self._rows.append(np.empty(0, np.int64))
        self._scores.append(np.empty(0, np.float32))
        self._prune()
        return self._rows[0]


def find_candidates(
    vectors: Vectors,
    queries: NDArray[np.float32],
    n: int,
    kept: Sequence[Mask | None],
    chosen: NDArray[np.int64] | None = None,
) -> list[NDArray[np.int64]]:
    """Returns for each query the rows that may be among its `n` best, ties included; mostly little more than `n`.

    Args:
        vectors: What is searched.
        queries: `(m, dim) float32` unit vectors.
        n: Number of rows, >= 1.
        kept: For each query the rows that count, `(size,) bool`; None: all.
        chosen: Ascending rows to compare; None: all.
    """
    best = [_Best(n, vectors.rounding) for _ in queries]
    floors = np.full((len(queries), 1), -np.inf, np.float32)
    for rows, block in vectors.blocks(SMALL_BLOCK if len(queries) <= FEW else BLOCK, chosen):
        scores = multiply(queries, block)
        high = scores >= floors
        for place in np.flatnonzero(high.any(axis=1)).tolist():
            columns = np.flatnonzero(high[place])
            if (mask := kept[place]) is not None:
                columns = columns[mask[rows[columns]]]
            if len(columns):
                best[place].add(rows[columns], scores[place, columns])
                floors[place] = best[place].floor
    return [of_query.rows() for of_query in best]
