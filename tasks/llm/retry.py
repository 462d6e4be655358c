"""When a request over HTTP may be tried again, and how long to wait before."""

import random
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from schemas.llm import RetrySettings

BUSY = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses of a web server after which the same request may succeed."""


def wait_s(settings: RetrySettings, tries: int, asked_s: float | None, jitter: random.Random) -> float:
    """Seconds to wait after `tries` failed tries.

    Without a word from the endpoint: full jitter, anything up to a limit that doubles with each try. With one: what it
    asked for, and a little more so that not all callers come back at once. Never much longer than the cap.

    Source: full jitter as in "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015).
    """
    if asked_s is not None:
        return min(asked_s, settings.cap_s) + jitter.uniform(0, settings.base_s)
    return jitter.uniform(0, min(settings.cap_s, settings.base_s * 2.0 ** (tries - 1)))


def retry_after_s(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds that a reply's headers ask to wait; None when they do not say, or not legibly."""
    for name, seconds_each in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "")
        try:
            seconds = float(value) * seconds_each
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    try:
        moment = parsedate_to_datetime(headers.get("retry-after", ""))
    except (ValueError, TypeError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - (now or datetime.now(UTC))).total_seconds())
