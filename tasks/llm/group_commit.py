"""Writes of many calls in one transaction: a commit of its own for each would cost more than the call."""

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from schemas.errors import StoreError
from tasks.llm.database import Database

DELAY_S = 0.001
"""How long a write waits for others, in seconds, when the latest one had company."""

ResultT = TypeVar("ResultT")


class _Write(NamedTuple):
    work: Callable[[], Any]
    done: asyncio.Future[Any]


class GroupCommit:
    """Runs writes in the order in which they are handed over, all that wait in one transaction.

    Args:
        database: What is written to.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: list[_Write] = []
        self._latest = 0

    async def run(self, work: Callable[[], ResultT]) -> ResultT:
        """Returns the result of a write once it is committed; a write whose caller gave up before is not made."""
        return await self.hand_over(work)

    def hand_over(self, work: Callable[[], ResultT]) -> asyncio.Future[ResultT]:
        """Adds a write and returns at once."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[ResultT] = loop.create_future()
        self._waiting.append(_Write(work, done))
        if len(self._waiting) == 1:
            loop.call_later(DELAY_S if self._latest > 1 else 0, self.flush)
        return done

    def flush(self) -> None:
        """Makes every write that waits."""
        waiting, self._waiting = [write for write in self._waiting if not write.done.cancelled()], []
        if not waiting:
            return
        self._latest = len(waiting)
        try:
            with self._database.transaction():
                results = [write.work() for write in waiting]
        except StoreError as error:
            for write in waiting:
                write.done.set_exception(StoreError(str(error)))
                write.done.exception()  # nobody may wait for it
            return
        for write, result in zip(waiting, results, strict=True):
            write.done.set_result(result)
