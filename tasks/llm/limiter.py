"""The rate limit of one process: requests and tokens per minute."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from schemas.llm_settings import RateSettings

BURST_S = 1.0
"""Capacity of a bucket in seconds of its rate, so that a pause does not allow a burst."""


class Bucket:
    """A token bucket, stored as the time at which the next caller may proceed.

    Args:
        per_minute: Rate at which it refills.
    """

    def __init__(self, per_minute: float) -> None:
        self._seconds_each = 60.0 / per_minute
        self._ready = float("-inf")

    def take(self, amount: float, now: float) -> float:
        """Takes `amount` and returns the seconds to wait for it; taking more than there is delays later callers."""
        start = max(self._ready, now - BURST_S)
        self._ready = start + amount * self._seconds_each
        return max(0.0, start - now)

    def give_back(self, amount: float) -> None:
        """Returns an unused amount to the bucket; a negative amount takes more."""
        self._ready -= amount * self._seconds_each


class Limiter:
    """Admits calls in order of arrival, no faster than the settings allow.

    Args:
        settings: The limits.
        clock: Returns monotonic seconds.
        sleep: Waits the given number of seconds.
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
        """Waits until one request of `tokens` tokens may be sent."""
        now = self._clock()
        waits = [bucket.take(amount, now) for bucket, amount in ((self._requests, 1), (self._tokens, tokens)) if bucket]
        if waits and (wait := max(waits)):
            await self._sleep(wait)

    def settle(self, expected: int, used: int) -> None:
        """Corrects the tokens taken for a call once its usage is known."""
        if self._tokens:
            self._tokens.give_back(expected - used)
