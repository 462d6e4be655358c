"""Writes of many callers in one transaction: each is answered when its transaction is on disk."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

from schemas.errors import ArenaError, StoreError
from tasks.llm.database import Database

ResultT = TypeVar("ResultT")

MOST = 256
"""Writes of one transaction."""


class _Write(NamedTuple):
    work: Callable[[Database], Any]
    done: "Future[Any]"


class Writer:
    """A thread that makes writes in the order in which they are handed over, all that wait in one transaction.

    A commit ends with the disk saying that the data is there, so what was answered survives a kill and a power cut.

    Args:
        database: What is written to; used by this thread alone from now on.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        database.execute("PRAGMA synchronous = FULL")
        self._waiting: SimpleQueue[_Write | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="record", daemon=True)
        self._thread.start()

    def write(self, work: Callable[[Database], ResultT]) -> "Future[ResultT]":
        """Hands a write over. An ArenaError that it raises is its result; it must raise before it changes anything."""
        done: Future[ResultT] = Future()
        self._waiting.put(_Write(work, done))
        return done

    def close(self) -> None:
        """Makes the writes that wait, and ends."""
        self._waiting.put(None)
        self._thread.join()
        self._database.close()

    def _run(self) -> None:
        while True:
            taken = [self._waiting.get()]
            while len(taken) < MOST and taken[-1] is not None and not self._waiting.empty():
                taken.append(self._waiting.get())
            self._commit([write for write in taken if write is not None])
            if taken[-1] is None:
                return

    def _commit(self, writes: list[_Write]) -> None:
        answers: list[tuple[Any, BaseException | None]] = []
        try:
            with self._database.transaction():
                answers = [_attempt(self._database, write) for write in writes]
        except Exception as error:  # nothing of the transaction is kept, so no write was made
            answers = [(None, error)] * len(writes)
        for write, (result, error) in zip(writes, answers, strict=True):
            if error is None:
                write.done.set_result(result)
            else:
                write.done.set_exception(error)


def _attempt(database: Database, write: _Write) -> tuple[Any, BaseException | None]:
    try:
        return write.work(database), None
    except StoreError:
        raise
    except ArenaError as error:
        return None, error
