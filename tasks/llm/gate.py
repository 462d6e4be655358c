"""One cool-down for all calls: how an endpoint that limits its callers is asked no more than it admits."""

import asyncio
import random
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

from schemas.llm_settings import RetrySettings

GROWTH = 1.1
"""Factor by which a learned pace grows each second: an endpoint may admit more than it did."""

START, FOLLOW = 128, 0.25
"""Calls in flight at the beginning, and how many more each ended call allows: no herd meets an unknown limit."""

SAME_S = 0.05
"""Two reports whose limits are whole at times closer than this, in seconds, speak of the same window."""

CATCH_UP_S = 0.1
"""A learned pace may make up for sends that came late by so many seconds."""

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")

_HEADERS = {
    what: (
        (f"x-ratelimit-remaining-{what}", f"x-ratelimit-reset-{what}"),
        (f"anthropic-ratelimit-{what}-remaining", f"anthropic-ratelimit-{what}-reset"),
    )
    for what in ("requests", "tokens")
}
"""Names of the headers that say how much is left, and when it is whole again."""

_jitter = random.Random()  # noqa: S311


class Quota(NamedTuple):
    """What a reply's headers say is left of one limit, and in how many seconds it is whole again."""

    left: int
    reset_s: float


class Quotas(NamedTuple):
    """The limits that a reply's headers describe; None where they say nothing."""

    requests: Quota | None = None
    tokens: Quota | None = None


NO_QUOTAS = Quotas()


def read_quotas(headers: Mapping[str, str]) -> Quotas:
    """Reads `x-ratelimit-remaining-*` and `x-ratelimit-reset-*`, and Anthropic's headers of the same meaning."""
    return Quotas(_quota(headers, "requests"), _quota(headers, "tokens"))


def _quota(headers: Mapping[str, str], what: str) -> Quota | None:
    for left, reset in _HEADERS[what]:
        if left in headers:
            with suppress(ValueError, OverflowError):
                if (seconds := _seconds(headers.get(reset, ""))) is not None:
                    return Quota(int(headers[left]), seconds)
    return None


def _seconds(text: str) -> float | None:
    """Reads `1m30s`, `20ms`, seconds, or an ISO date."""
    if parts := _DURATION.findall(text):
        return sum(float(number) * _UNITS[unit] for number, unit in parts)
    if "T" in text:
        moment = datetime.fromisoformat(text)
        return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
    return float(text) if text else None


def wait_of(quotas: Quotas) -> float | None:
    """Returns the seconds until every used-up limit is whole again; None when none is used up."""
    waits = [quota.reset_s for quota in quotas if quota and quota.left <= 0]
    return max(waits) if waits else None


class Ticket(NamedTuple):
    """A call that was admitted.

    Attributes:
        sent_at: When, in the time of the event loop.
        calls: Number of calls admitted so far, this one included.
        tokens: Tokens of all those calls.
    """

    sent_at: float
    calls: int
    tokens: int


class _Left(NamedTuple):
    """A reported limit, as the number of the call (or the sum of tokens) up to which it lasts, until it is whole."""

    up_to: int
    until: float
    reported_by: int


class Gate:
    """Admits calls in order, and closes when the endpoint turns one away.

    While it is closed nobody sends. After the time that the endpoint asks for, or else a time that doubles, one call
    goes alone. When that is admitted, the others follow at the pace that the endpoint admitted before, which then
    grows. So a limit costs a few calls, not one for each call that waits, and no call uses up its tries on it.

    Args:
        settings: The wait where the endpoint names none.
    """

    def __init__(self, settings: RetrySettings) -> None:
        self._settings = settings
        self._turn = asyncio.Lock()
        self._changed = asyncio.Event()
        self._calls = self._tokens = self._in_flight = 0
        self._left: dict[str, _Left] = {}
        self._closed_at = self._closed_until = float("-inf")
        self._probing = self._probe_out = False
        self._rounds = 0
        self._turned_away_since: float | None = None
        self._opened_at: float | None = None
        self._admitted = 0
        self._pace: float | None = None
        self._next_at = self._paced_at = float("-inf")

    async def admit(self, tokens: int) -> Ticket:
        """Waits until a call of about `tokens` tokens may be sent."""
        loop = asyncio.get_running_loop()
        if self._turn.locked() or self._wait_s(loop.time(), tokens):
            async with self._turn:
                while wait := self._wait_s(loop.time(), tokens):
                    with suppress(TimeoutError):
                        async with asyncio.timeout(wait):
                            await self._changed.wait()
        now = loop.time()
        self._calls += 1
        self._in_flight += 1
        self._tokens += tokens
        self._probe_out = self._probing
        self._opened_at = now if self._opened_at is None else self._opened_at
        if self._pace:
            pace = self._pace * GROWTH ** (now - self._paced_at)
            self._pace, self._paced_at = pace, now
            self._next_at = max(self._next_at, now - CATCH_UP_S) + 1 / pace
        return Ticket(now, self._calls, self._tokens)

    def _wait_s(self, now: float, tokens: int) -> float:
        """Returns for how long to wait at most before looking again; 0: the call may go."""
        if now < self._closed_until:
            return self._closed_until - now
        if self._probing:
            return self._settings.timeout_s if self._probe_out else 0.0
        if self._in_flight >= START + FOLLOW * (self._calls - self._in_flight):
            return self._settings.timeout_s
        for name, wanted in (("requests", self._calls + 1), ("tokens", self._tokens + tokens)):
            left = self._left.get(name)
            if left and now < left.until and wanted > left.up_to:
                return left.until - now
        return max(0.0, self._next_at - now) if self._pace else 0.0

    def turned_away_s(self) -> float:
        """Returns for how many seconds the endpoint has turned every call away."""
        since = self._turned_away_since
        return 0.0 if since is None else asyncio.get_running_loop().time() - since

    def leave(self, ticket: Ticket, quotas: Quotas = NO_QUOTAS) -> None:
        """Records that a call has ended, and what its reply says is left."""
        now = asyncio.get_running_loop().time()
        self._in_flight -= 1
        for name, quota, used in (
            ("requests", quotas.requests, ticket.calls),
            ("tokens", quotas.tokens, ticket.tokens),
        ):
            known = self._left.get(name)
            if quota and (known is None or ticket.calls > known.reported_by):
                up_to, until = used + quota.left, now + quota.reset_s
                if known and abs(until - known.until) < SAME_S:
                    up_to = min(up_to, known.up_to)  # replies come in another order than calls arrive
                self._left[name] = _Left(up_to, until, ticket.calls)
        if self._probing and ticket.sent_at >= self._closed_at:
            self._probe_out = False
        self._wake()

    def admitted(self, ticket: Ticket) -> None:
        """Records that the endpoint took a call on."""
        self._turned_away_since = None
        self._admitted += 1
        if self._probing and ticket.sent_at >= self._closed_at:
            self._open(asyncio.get_running_loop().time())

    def turned_away(self, ticket: Ticket, asked_s: float | None) -> None:
        """Records that the endpoint turned a call away because of its limits.

        Args:
            ticket: The call's.
            asked_s: Seconds that the endpoint asks to wait; None: it does not say.
        """
        now = asyncio.get_running_loop().time()
        self._turned_away_since = now if self._turned_away_since is None else self._turned_away_since
        if ticket.sent_at < self._closed_at:  # sent before the gate closed: nothing new but perhaps a longer wait
            self._closed_until = max(self._closed_until, now + (asked_s or 0.0))
            return
        self._rounds = self._rounds + 1 if self._probing else 1
        self._probing, self._probe_out = True, False
        longest = min(self._settings.cap_s, self._settings.base_s * 2.0 ** min(self._rounds - 1, 30))
        self._closed_at = now
        self._closed_until = now + (longest * _jitter.uniform(0.5, 1) if asked_s is None else asked_s)

    def _open(self, now: float) -> None:
        if self._opened_at is not None and self._admitted > 1:
            self._pace = self._admitted / max(now - self._opened_at, 0.001)
        self._probing, self._opened_at, self._admitted, self._rounds = False, now, 0, 0
        self._next_at = self._paced_at = now

    def _wake(self) -> None:
        if self._turn.locked():
            self._changed.set()
            self._changed = asyncio.Event()
