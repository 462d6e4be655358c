"""The door for code without an event loop: plain calls, from any number of threads."""

import asyncio
import threading
from collections.abc import Coroutine, Iterable
from typing import Any, Self, TypeVar

from pydantic import SecretStr

from schemas.llm import AnswerT, LlmSettings, Reply, Request
from tasks.llm.door import Door

ResultT = TypeVar("ResultT")


class BlockingDoor:
    """A `Door` in a thread of its own. Threads that share it share its caps, rate limit and connections.

    Args:
        settings: As for `Door`.
        api_key: As for `Door`.
    """

    def __init__(self, settings: LlmSettings, api_key: SecretStr | None = None) -> None:
        self.door = Door(settings, api_key)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="llm-door", daemon=True)
        self._thread.start()

    def ask(self, request: Request[AnswerT]) -> Reply[AnswerT]:
        """As `Door.ask`."""
        return self.run(self.door.ask(request))

    def ask_all(self, requests: Iterable[Request[AnswerT]]) -> list[Reply[AnswerT]]:
        """As `Door.ask_all`."""
        return self.run(self.door.ask_all(requests))

    def run(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Runs any coroutine of the door, or of a client that shares it, and waits for it."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Closes the door and ends its thread."""
        self.run(self.door.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
