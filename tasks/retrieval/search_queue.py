"""Answers the searches of several threads together, one batch at a time."""

from collections import deque
from concurrent.futures import Future
from threading import Condition, Lock
from time import monotonic
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.errors import ArenaError
from tasks.index.candidates import Mask
from tasks.index.dense import TOGETHER, DenseIndex
from tasks.index.ranked import Ranked

LINGER = 0.25
"""Share of a batch's time for which the next batch waits to become as large."""


class _Waiting(NamedTuple):
    """A search whose answer is waited for."""

    vector: NDArray[np.float32]
    n: int
    kept: Mask | None
    answer: Future[Ranked]


class SearchQueue:
    """One searcher with a queue: a thread that finds the index free answers all searches that wait.

    So an index is searched by one thread at a time, as FAISS needs it on a GPU, and the more threads ask, the more
    searches share a pass over the vectors. Results do not depend on the batches.

    Args:
        index: The opened index.
    """

    def __init__(self, index: DenseIndex) -> None:
        self._index = index
        self._waiting: deque[_Waiting] = deque()
        self._arrived = Condition()
        self._free = Lock()
        self._last_size, self._last_seconds = 1, 0.0

    def search(self, vector: NDArray[np.float32], n: int, kept: Mask | None) -> Ranked:
        """Returns what `DenseIndex.search` returns.

        Raises:
            BadInput: As `DenseIndex.search`.
        """
        asked = _Waiting(vector, n, kept, Future())
        with self._arrived:
            self._waiting.append(asked)
            self._arrived.notify()
        with self._free:
            while not asked.answer.done():
                self._answer(self._next_batch())
        return asked.answer.result()

    def _next_batch(self) -> list[_Waiting]:
        with self._arrived:
            if self._last_size > 1:
                self._arrived.wait_for(
                    lambda: len(self._waiting) >= self._last_size, timeout=LINGER * self._last_seconds
                )
            return [self._waiting.popleft() for _ in range(min(TOGETHER, len(self._waiting)))]

    def _answer(self, batch: list[_Waiting]) -> None:
        start = monotonic()
        try:
            most = max(asked.n for asked in batch)
            vectors = np.stack([asked.vector for asked in batch])
            found = self._index.search_many(vectors, most, [asked.kept for asked in batch])
        except (ArenaError, ValueError):  # of one of them
            for asked in batch:
                self._answer_alone(asked)
        except BaseException as error:
            for asked in batch:
                asked.answer.set_exception(error)
            raise
        else:
            for asked, ranked in zip(batch, found, strict=True):
                asked.answer.set_result(Ranked(ranked.ids[: asked.n], ranked.scores[: asked.n]))
        self._last_size, self._last_seconds = len(batch), monotonic() - start

    def _answer_alone(self, asked: _Waiting) -> None:
        try:
            asked.answer.set_result(self._index.search(asked.vector, asked.n, asked.kept))
        except Exception as error:
            asked.answer.set_exception(error)
