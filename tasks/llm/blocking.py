"""A blocking interface to the door, for code without an event loop; any number of threads may share it."""

import asyncio
import threading
from collections.abc import Coroutine, Iterable
from typing import Any, Self, TypeVar

from pydantic import SecretStr

from schemas.errors import ArenaError
from schemas.llm import AnswerT, Reply, Request
from schemas.llm_settings import LlmSettings
from tasks.llm.door import Door

ResultT = TypeVar("ResultT")


class BlockingDoor:
    """A `Door` that runs in a thread of its own. All callers share its budget, rate limit and connections.

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
        """Asks one question, as `Door.ask` does."""
        return self.run(self.door.ask(request))

    def ask_all(self, requests: Iterable[Request[AnswerT]]) -> list[Reply[AnswerT]]:
        """Asks many questions, as `Door.ask_all` does."""
        return self.run(self.door.ask_all(requests))

    def run(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Runs a coroutine in the door's event loop and returns its result."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def stop(self, error: ArenaError) -> None:
        """Refuses every further call with an error; calls in flight end."""
        self._loop.call_soon_threadsafe(self.door.outage.stop, error)

    def require_healthy(self) -> None:
        """Checks the share of failed calls, as `Outage.require_healthy` does."""
        self.door.outage.require_healthy()

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
