"""One total order for every engine: score descending, ties by ascending corpus_id."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SLACK = 16
"""Documents that are asked for beyond those needed, so that most ties are seen at once."""


class Ranked(NamedTuple):
    """Documents best first: `ids (n,) int64` and `scores (n,) float32`."""

    ids: NDArray[np.int64]
    scores: NDArray[np.float32]

    @classmethod
    def nothing(cls) -> "Ranked":
        """An empty ranking."""
        return cls(np.empty(0, np.int64), np.empty(0, np.float32))

    def ordered(self) -> "Ranked":
        """The same documents in the total order."""
        order = np.lexsort((self.ids, -self.scores))
        return Ranked(self.ids[order], self.scores[order])


def first_in_order(fetch: Callable[[int], Ranked], n: int, size: int, margin: float = 0.0) -> Ranked:
    """The first `n` documents of the total order, however the engine breaks ties.

    Asks for more until the lowest score seen falls below that of place `n`, so that every document that ties with it
    is seen: the answer for `n` is a prefix of the answer for any larger number.

    Args:
        fetch: Gives the engine's best `depth` documents in any order; fewer when there are no more.
        n: Number of documents, >= 1.
        size: Number of documents in the index.
        margin: How far scores may lie from those by which the engine chose, both ways together.
    """
    depth = min(n + SLACK, size)
    while True:
        found = fetch(depth)
        ranked = found.ordered()
        if len(found.ids) < depth or depth >= size or ranked.scores[n - 1] > ranked.scores[-1] + margin:
            return Ranked(ranked.ids[:n], ranked.scores[:n])
        depth = min(2 * depth, size)
