"""How often and how fast a server is asked: calls an interval, waits after a failure, bytes a second."""

import fcntl
import logging
import os
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    sleep_using_event,
    stop_after_attempt,
    wait_random_exponential,
)

from schemas.errors import TransientError
from schemas.fetching import RetrySettings

log = logging.getLogger(__name__)


class Busy(TransientError):
    """A server asks to come back later.

    Args:
        message: What happened.
        after_s: Seconds that it asks to wait; None: it does not say.
    """

    def __init__(self, message: str, after_s: float | None = None) -> None:
        super().__init__(message)
        self.after_s = after_s


def retry_after_s(value: str | None) -> float | None:
    """Seconds in a header `Retry-After`, which holds a number or a date; None when absent or illegible."""
    if value is None:
        return None
    if value.strip().isdecimal():
        return float(value)
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    return max(0.0, ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - datetime.now(UTC)).total_seconds())


def persist(settings: RetrySettings, stop: threading.Event | None = None) -> Retrying:
    """Tries again what raises TransientError.

    Waits as long as the server asks, capped, and a little more so that not all come back at once; where it does not
    say, anything up to a limit that doubles with each try. Setting `stop` ends a wait.

    Source: full jitter as in "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015).
    """
    own = wait_random_exponential(multiplier=settings.backoff_s, max=settings.backoff_limit_s)
    little = wait_random_exponential(multiplier=settings.backoff_s, max=settings.backoff_s)

    def wait(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        if isinstance(error, Busy) and error.after_s is not None:
            return min(error.after_s, settings.retry_after_limit_s) + (little(state) if error.after_s else 0)
        return own(state)

    def say(state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        log.info("%s; try %d of %d in %.1f s", error, state.attempt_number + 1, settings.attempts, state.upcoming_sleep)

    return Retrying(
        sleep=sleep_using_event(stop or threading.Event()),
        retry=retry_if_exception_type(TransientError),
        stop=stop_after_attempt(settings.attempts),
        wait=wait,
        before_sleep=say,
        reraise=True,
    )


class Pace:
    """Calls of all processes of a machine, one an interval.

    Args:
        path: File that holds when the next call may be made; its lock lets one process at a time wait for that.
        interval_s: Seconds between two calls.
        limit_s: Longest wait in seconds, whatever the file says (a clock may have been set back).
    """

    def __init__(self, path: Path, interval_s: float, limit_s: float) -> None:
        self._path, self._interval, self._limit = path, interval_s, max(limit_s, interval_s)

    def wait(self) -> None:
        """Returns when a call may be made."""
        with self._next() as file:
            now = time.time()
            time.sleep(min(max(_read_time(file) - now, 0.0), self._limit))
            _write_time(file, time.time() + self._interval)

    def hold(self, seconds: float) -> None:
        """Lets no process call for so long."""
        with self._next() as file:
            _write_time(file, max(_read_time(file), time.time() + min(seconds, self._limit)))

    @contextmanager
    def _next(self) -> Generator[int]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file
        finally:
            os.close(file)


def _read_time(file: int) -> float:
    try:
        return float(os.pread(file, 64, 0))
    except ValueError:
        return 0.0


def _write_time(file: int, moment: float) -> None:
    os.pwrite(file, f"{moment:020.6f}".encode(), 0)


class Throttle:
    """Bytes a second of all threads of this process together.

    Args:
        rate: Bytes a second; None: no limit.
    """

    def __init__(self, rate: float | None) -> None:
        self._rate, self._lock, self._free = rate, threading.Lock(), time.monotonic()

    def take(self, size: int) -> None:
        """Returns when so many bytes have had their time."""
        if self._rate is None:
            return
        with self._lock:
            self._free = max(self._free, time.monotonic()) + size / self._rate
            wait = self._free - time.monotonic()
        time.sleep(max(wait, 0.0))
