"""How fast a server is asked: a least interval between requests, and a bandwidth."""

import fcntl
import os
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from tasks.http.stop import pause


class OwnPace:
    """Keeps an interval between the requests of this object's threads.

    Args:
        interval_s: Least seconds between the starts of two requests.
        sleep: Waits that many seconds.
    """

    def __init__(self, interval_s: float, sleep: Callable[[float], object] = pause) -> None:
        self._interval, self._sleep = interval_s, sleep
        self._lock, self._next = threading.Lock(), float("-inf")

    def wait(self) -> None:
        """Waits until the next request may be made."""
        with self._lock:
            now = time.monotonic()
            start = max(now, self._next)
            self._next = start + self._interval
        if start > now:
            self._sleep(start - now)

    def hold(self, seconds: float) -> None:
        """Lets no request start for so many seconds."""
        with self._lock:
            self._next = max(self._next, time.monotonic() + seconds)


class SharedPace:
    """Keeps an interval between the requests of all processes of a machine.

    Args:
        path: File with the time of the next request. It is locked while it is read and written, never during a wait;
            the kernel frees the lock of a process that dies.
        interval_s: Least seconds between the starts of two requests.
        limit_s: Longest wait in seconds, whatever the file says (a clock may have been set back).
    """

    def __init__(self, path: Path, interval_s: float, limit_s: float) -> None:
        self._path, self._interval, self._limit = path, interval_s, max(limit_s, interval_s)

    def wait(self) -> None:
        """Waits until the next request may be made."""
        ends = time.monotonic() + self._limit
        while (left := self._take()) > 0 and (room := ends - time.monotonic()) > 0:
            pause(min(left, room))
        if left > 0:
            self._take(anyway=True)

    def _take(self, *, anyway: bool = False) -> float:
        """Takes the next request when its time has come (or anyway), else returns the seconds until then."""
        with self._locked() as file:
            left = _read_time(file) - time.time()
            if anyway or left <= 0:
                _write_time(file, time.time() + self._interval)
            return left

    def hold(self, seconds: float) -> None:
        """Lets no process start a request for so many seconds."""
        with self._locked() as file:
            _write_time(file, max(_read_time(file), time.time() + min(seconds, self._limit)))

    @contextmanager
    def _locked(self) -> Generator[int]:
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


Pace = OwnPace | SharedPace


class Throttle:
    """Keeps a bandwidth over all threads of this process.

    Args:
        rate: Bytes a second; None: no limit.
    """

    def __init__(self, rate: float | None) -> None:
        self._rate, self._lock, self._free = rate, threading.Lock(), time.monotonic()

    def take(self, size: int) -> None:
        """Waits until the bandwidth budget allows `size` more bytes."""
        if self._rate is None:
            return
        with self._lock:
            self._free = max(self._free, time.monotonic()) + size / self._rate
            wait = self._free - time.monotonic()
        pause(max(wait, 0.0))
