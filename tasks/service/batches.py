"""Searches that come at once are searched together."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, NamedTuple, TypeVar

ItemT = TypeVar("ItemT")

TOGETHER = 64
"""Most searches of a batch."""

MOST_WAITING = 1024
"""Most searches that wait; further ones are refused."""


class _Waiting(NamedTuple, Generic[ItemT]):
    item: ItemT
    done: "asyncio.Future[Any]"


class Batches(Generic[ItemT]):
    """Answers items in threads. Whatever arrives while all threads are busy waits, and goes together to the next one.

    An item that arrives when a thread is free does not wait.

    Args:
        answer: Answers several items; an error among the results is that item's.
        threads: Where; as many batches are answered at once.
        workers: Number of threads.
    """

    def __init__(
        self, answer: Callable[[Sequence[ItemT]], list[Any]], threads: ThreadPoolExecutor, workers: int
    ) -> None:
        self._answer = answer
        self._threads = threads
        self._free = workers
        self._waiting: list[_Waiting[ItemT]] = []
        self.largest = 0

    @property
    def is_full(self) -> bool:
        """Whether no more items should be added."""
        return len(self._waiting) >= MOST_WAITING

    async def ask(self, item: ItemT) -> Any:
        """Returns the answer of one item."""
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(item, done))
        self._start()
        return await done

    def _start(self) -> None:
        while self._waiting and self._free:
            taken, self._waiting = self._waiting[:TOGETHER], self._waiting[TOGETHER:]
            self._free -= 1
            self.largest = max(self.largest, len(taken))
            work = asyncio.get_running_loop().run_in_executor(
                self._threads, self._answer, [waiting.item for waiting in taken]
            )
            work.add_done_callback(lambda done, taken=taken: self._finish(done, taken))

    def _finish(self, work: "asyncio.Future[list[Any]]", taken: Sequence[_Waiting[ItemT]]) -> None:
        self._free += 1
        failed = asyncio.CancelledError() if work.cancelled() else work.exception()
        results: list[Any] = [failed] * len(taken) if failed else work.result()
        for waiting, result in zip(taken, results, strict=True):
            if waiting.done.done():
                continue
            if isinstance(result, BaseException):
                waiting.done.set_exception(result)
            else:
                waiting.done.set_result(result)
        self._start()
