"""Stops a stage whose calls fail: a result made of failed calls would look like a bad system."""

import asyncio
from collections import deque
from typing import NamedTuple

from schemas.errors import ArenaError, ModelError, TransientError
from schemas.llm_settings import OutageSettings


class _Failure(NamedTuple):
    """Why a call failed, and whether it may succeed later."""

    trouble: str
    transient: bool


class Outage:
    """Watches how the calls of one stage end, and refuses further calls once too many have failed.

    The first call goes alone. Until a call succeeds, no more calls are in flight than may fail, so that an endpoint
    that refuses everything costs a handful of requests.

    Args:
        settings: When to stop.
        where: The endpoint, for the message.
    """

    def __init__(self, settings: OutageSettings, where: str) -> None:
        self._settings = settings
        self._where = where
        self._latest: deque[bool] = deque(maxlen=settings.window)
        self._calls = self._failed = self._in_flight = 0
        self._changed = asyncio.Event()
        self._waiting = 0
        self._error: ArenaError | None = None
        self._last = _Failure("", transient=True)

    def __enter__(self) -> None:
        """Counts one call as in flight."""
        self._in_flight += 1

    def __exit__(self, *_: object) -> None:
        self._in_flight -= 1
        self._wake()

    async def admit(self) -> None:
        """Waits until a call may begin.

        Raises:
            ArenaError: The stage has been stopped.
        """
        while True:
            self._raise()
            if self._failed < self._calls or self._in_flight < self._untested():
                return
            self._waiting += 1
            try:
                await self._changed.wait()
            finally:
                self._waiting -= 1

    def _untested(self) -> int:
        """Calls that may be in flight before one has succeeded."""
        return 1 if not self._calls else max(1, self._settings.first - self._failed)

    def note(self, trouble: str, *, transient: bool) -> None:
        """Records how a call ended.

        Args:
            trouble: Why it failed, after all tries; empty: it succeeded.
            transient: Whether it may succeed later.
        """
        self._calls += 1
        self._latest.append(bool(trouble))
        if trouble:
            self._failed += 1
            self._last = _Failure(trouble, transient)
            allowed = self._settings.share * self._settings.window
            if sum(self._latest) > allowed or self._calls == self._failed >= self._settings.first:
                self.stop(self._describe(sum(self._latest), len(self._latest)))
        self._wake()

    def require_healthy(self) -> None:
        """Checks the share of failed calls of the whole stage.

        Raises:
            ArenaError: It is too large, or the stage has been stopped.
        """
        if self._calls >= self._settings.first and self._failed > self._settings.share * self._calls:
            self.stop(self._describe(self._failed, self._calls))
        self._raise()

    def stop(self, error: ArenaError) -> None:
        """Refuses every further call with an error; the first error stays."""
        self._error = self._error or error
        self._wake()

    def _describe(self, failed: int, calls: int) -> ArenaError:
        told = self._last.trouble
        remedy = "run it again when the endpoint answers" if self._last.transient else "correct the model's settings"
        return (TransientError if self._last.transient else ModelError)(
            f"{self._where}: {failed} of {calls} calls failed, more than the settings allow (outage: first "
            f"{self._settings.first}, share {self._settings.share:g}); the last: {told}; {remedy}; paid replies stay"
        )

    def _raise(self) -> None:
        if self._error:
            raise type(self._error)(str(self._error))

    def _wake(self) -> None:
        if self._waiting:
            self._changed.set()
            self._changed = asyncio.Event()
