"""The total order of every engine: score descending, ties by ascending corpus_id."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SLACK = 16
"""Extra documents to fetch, so that most ties are complete after the first fetch."""


class Ranked(NamedTuple):
    """Documents best first: `ids (n,) int64` and `scores (n,) float32`."""

    ids: NDArray[np.int64]
    scores: NDArray[np.float32]

    @classmethod
    def nothing(cls) -> "Ranked":
        """Returns an empty ranking."""
        return cls(np.empty(0, np.int64), np.empty(0, np.float32))

    def ordered(self) -> "Ranked":
        """Returns the same documents in the total order."""
        order = np.lexsort((self.ids, -self.scores))
        return Ranked(self.ids[order], self.scores[order])


def first_in_order(fetch: Callable[[int], Ranked], n: int, size: int, margin: float = 0.0) -> Ranked:
    """Returns the first `n` documents of the total order, however the engine breaks ties.

    Fetches more documents until the lowest score is below that of rank `n`, so that all documents tied with rank `n`
    are known. The result for `n` is therefore a prefix of the result for any larger number.

    Args:
        fetch: Returns the engine's best `depth` documents in any order, or fewer when there are no more.
        n: Number of documents, >= 1.
        size: Number of documents in the index.
        margin: Largest total error of the scores by which the engine chose.
    """
    depth = min(n + SLACK, size)
    while True:
        found = fetch(depth)
        ranked = found.ordered()
        if len(found.ids) < depth or depth >= size or ranked.scores[n - 1] > ranked.scores[-1] + margin:
            return Ranked(ranked.ids[:n], ranked.scores[:n])
        depth = min(2 * depth, size)
