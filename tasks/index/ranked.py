"""One total order for every engine: score descending, ties by ascending corpus_id.

What belongs here: making a prefix of that order from an engine that breaks ties in its own way. What does not: engines.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Ranked(NamedTuple):
    """Documents best first: `ids (n,) int64` and `scores (n,) float32`."""

    ids: NDArray[np.int64]
    scores: NDArray[np.float32]

    @classmethod
    def nothing(cls) -> "Ranked":
        """An empty ranking."""
        return cls(np.empty(0, np.int64), np.empty(0, np.float32))

    def ordered(self, n: int) -> "Ranked":
        """The first `n` in the total order."""
        first = np.lexsort((self.ids, -self.scores))[:n]
        return Ranked(self.ids[first], self.scores[first])


def first_in_order(fetch: Callable[[int], Ranked], n: int, size: int) -> Ranked:
    """The first `n` documents of the total order, however the engine breaks ties.

    Asks for more until the score falls below that of place `n`, so that every document that ties with it is seen: the
    answer for `n` is a prefix of the answer for any larger number.

    Args:
        fetch: Gives the engine's best `depth` documents, scores descending, ties in any order.
        n: Number of documents, >= 1.
        size: Number of documents in the index.
    """
    depth = min(n + 1, size)
    while True:
        found = fetch(depth)
        if len(found.ids) < depth or depth >= size or found.scores[-1] < found.scores[n - 1]:
            return found.ordered(n)
        depth = min(2 * depth, size)
