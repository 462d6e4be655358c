"""Writes of many calls in one transaction: a commit of its own for each would cost more than the call."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from schemas.errors import StoreError
from tasks.llm.database import Database

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


class _Item(NamedTuple):
    item: Any
    done: asyncio.Future[Any]


class GroupCommit:
    """Makes all writes of one turn of the event loop in one transaction: the busier the loop, the more they are.

    Writes of one kind are made together. A kind is a function that writes a list of items and returns a result for
    each.

    Args:
        database: What is written to.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: defaultdict[Callable[[Sequence[Any]], Sequence[Any]], list[_Item]] = defaultdict(list)

    async def run(self, write: Callable[[Sequence[ItemT]], Sequence[ResultT]], item: ItemT) -> ResultT:
        """Returns an item's result once it is committed; an item whose caller gave up before is not written."""
        return await self.hand_over(write, item)

    def hand_over(self, write: Callable[[Sequence[ItemT]], Sequence[ResultT]], item: ItemT) -> asyncio.Future[ResultT]:
        """Adds an item and returns at once."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self.flush)
        done: asyncio.Future[ResultT] = loop.create_future()
        self._waiting[write].append(_Item(item, done))
        return done

    def flush(self) -> None:
        """Writes everything that waits."""
        waiting = {write: [one for one in items if not one.done.cancelled()] for write, items in self._waiting.items()}
        self._waiting.clear()
        written = [one for items in waiting.values() for one in items]
        if not written:
            return
        try:
            with self._database.transaction():
                results = [result for write, items in waiting.items() for result in write([one.item for one in items])]
        except StoreError as error:
            for one in written:
                one.done.set_exception(StoreError(str(error)))
                one.done.exception()  # nobody may wait for it
            return
        for one, result in zip(written, results, strict=True):
            one.done.set_result(result)
