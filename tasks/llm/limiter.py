"""The rate limit that one process keeps by itself: requests and tokens a minute."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from schemas.llm import RateSettings

BURST_S = 1.0
"""What a bucket holds when full, in seconds of its rate: a pause does not buy a rush."""


class Bucket:
    """A token bucket, kept as the moment from which the next caller may go.

    Args:
        per_minute: Rate at which it refills.
    """

    def __init__(self, per_minute: float) -> None:
        self._seconds_each = 60.0 / per_minute
        self._ready = float("-inf")

    def take(self, amount: float, now: float) -> float:
        """Takes `amount` and returns how long to wait for it, in seconds. More than the bucket holds is a debt."""
        start = max(self._ready, now - BURST_S)
        self._ready = start + amount * self._seconds_each
        return max(0.0, start - now)

    def give_back(self, amount: float) -> None:
        """Returns what was taken and not used (or takes what was used beyond it, when negative)."""
        self._ready -= amount * self._seconds_each


class Limiter:
    """Lets calls through in the order in which they come, no faster than the settings say.

    Args:
        settings: The limits.
        clock: Seconds, never going back.
        sleep: Waits that many seconds.
    """

    def __init__(
        self,
        settings: RateSettings,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._requests = Bucket(settings.requests_per_minute) if settings.requests_per_minute else None
        self._tokens = Bucket(settings.tokens_per_minute) if settings.tokens_per_minute else None
        self._clock, self._sleep = clock, sleep

    async def acquire(self, tokens: int) -> None:
        """Waits until one request of so many tokens may go."""
        now = self._clock()
        waits = [bucket.take(amount, now) for bucket, amount in ((self._requests, 1), (self._tokens, tokens)) if bucket]
        if waits and (wait := max(waits)):
            await self._sleep(wait)

    def settle(self, expected: int, used: int) -> None:
        """Corrects the tokens taken for a call, once it is known what it used."""
        if self._tokens:
            self._tokens.give_back(expected - used)
