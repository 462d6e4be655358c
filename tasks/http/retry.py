"""When a request may be tried again, and how long to wait first."""

import logging
import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple, NoReturn

from tenacity import (
    RetryCallState,
    Retrying,
    before_sleep_log,
    retry_if_exception_type,
    stop_after_attempt,
    stop_before_delay,
)

from schemas.errors import TransientError
from schemas.llm_settings import RetrySettings
from tasks.http.stop import pause

log = logging.getLogger(__name__)

_jitter = random.Random()  # noqa: S311


class RetryRules(NamedTuple):
    """How often and how patiently a request is tried again.

    Attributes:
        tries: Requests in all, the first included.
        base_s: Longest first wait in seconds; it doubles with each try.
        cap_s: Longest wait in seconds that we choose ourselves.
        asked_cap_s: Longest wait in seconds that a server may ask for.
        patience_s: Seconds after which no other try begins, even when there are tries left.
    """

    tries: int
    base_s: float
    cap_s: float
    asked_cap_s: float
    patience_s: float = float("inf")

    @classmethod
    def of(cls, settings: RetrySettings) -> "RetryRules":
        """Returns the rules that settings with a single cap mean."""
        return cls(settings.tries, settings.base_s, settings.cap_s, settings.cap_s)


class Busy(TransientError):
    """A server asks to come back later.

    Args:
        message: What happened.
        after_s: Seconds that it asks to wait; 0: try again at once; None: it does not say.
    """

    def __init__(self, message: str, after_s: float | None = None) -> None:
        super().__init__(message)
        self.after_s = after_s


def is_busy(status: int) -> bool:
    """Returns whether the same request may succeed later, after a reply of this status."""
    return status in (408, 425, 429) or status >= 500


def retry_after_s(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Returns the seconds that a reply's headers ask to wait; None when they do not say, or not legibly."""
    for name, seconds_each in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * seconds_each
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


def wait_s(rules: RetryRules, tries: int, asked_s: float | None) -> float:
    """Returns how many seconds to wait after `tries` failed tries.

    When the server asks for a wait: that long, up to the cap, and a little more so that not all callers come back at
    once. Otherwise full jitter: anything up to a limit that doubles with each try.

    Source: full jitter as in "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015).
    """
    if asked_s is not None:
        return min(asked_s, rules.asked_cap_s) + _jitter.uniform(0, rules.base_s)
    return _jitter.uniform(0, min(rules.cap_s, rules.base_s * 2.0 ** (tries - 1)))


def persist(rules: RetryRules, remedy: str, sleep: Callable[[float], object] = pause) -> Retrying:
    """Returns a caller that repeats a function while it raises TransientError.

    After the last try it raises a TransientError with the last message, the number of tries and the remedy.

    Args:
        rules: How often, and how long to wait.
        remedy: What a person can do when every try failed.
        sleep: Waits that many seconds, or less when the work is called off.
    """

    def wait(state: RetryCallState) -> float:
        error = _error_of(state)
        asked_s = error.after_s if isinstance(error, Busy) else None
        return 0.0 if asked_s == 0 else wait_s(rules, state.attempt_number, asked_s)

    def give_up(state: RetryCallState) -> NoReturn:
        raise TransientError(f"{_error_of(state)} (tries: {state.attempt_number}); {remedy}") from _error_of(state)

    def rest(seconds: float) -> None:
        sleep(seconds)

    return Retrying(
        sleep=rest,
        retry=retry_if_exception_type(TransientError),
        stop=stop_after_attempt(rules.tries) | stop_before_delay(rules.patience_s),
        wait=wait,
        before_sleep=before_sleep_log(log, logging.INFO),
        retry_error_callback=give_up,
    )


def _error_of(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome else None
