"""Lets work end at once: threads that are called off, and network waits that have an end.

A thread of `stoppable_pool` that waits, reads from the network or calls `check_stop` gets Stopped as soon as the pool's
owner fails or is interrupted. Other threads get a signal's exception (Ctrl-C) by themselves.
"""

import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import httpcore

T = TypeVar("T")

SLICE_S = 0.2
"""Longest wait before a thread looks whether it was called off, in seconds."""


class Stopped(Exception):
    """The work of this thread was called off."""


class _Thread(threading.local):
    """What ends the waits of one thread: its pool's event, and the moment at which a reply's head must be there."""

    called_off: threading.Event | None = None
    head_ends: float = float("inf")


_thread = _Thread()


@contextmanager
def stoppable_pool(threads: int) -> Generator[ThreadPoolExecutor]:
    """Gives a pool of threads that are called off, running and waiting ones alike, when the block raises."""
    called_off = threading.Event()

    def follow() -> None:
        _thread.called_off = called_off

    with ThreadPoolExecutor(threads, initializer=follow) as pool:
        try:
            yield pool
        except BaseException:
            called_off.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def check_stop() -> None:
    """Raises Stopped when this thread was called off; long loops call it now and then."""
    if _thread.called_off and _thread.called_off.is_set():
        raise Stopped


def pause(seconds: float) -> None:
    """Waits that many seconds; raises Stopped as soon as this thread is called off."""
    if _thread.called_off is None:
        time.sleep(seconds)
    elif _thread.called_off.wait(seconds):
        raise Stopped


@contextmanager
def head_within(seconds: float) -> Generator[Callable[[], None]]:
    """Lets network reads of this thread time out after that many seconds, until the given function is called.

    A server could otherwise send letters of a head, or heads that announce another one, for ever.
    """

    def arrived() -> None:
        _thread.head_ends = float("inf")

    _thread.head_ends = time.monotonic() + seconds
    try:
        yield arrived
    finally:
        arrived()


class StoppableBackend(httpcore.NetworkBackend):
    """Opens connections whose waits end when their thread is called off or a head takes too long."""

    def connect_tcp(self, host: str, port: int, timeout: float | None = None, *more: Any, **named: Any) -> "_Stream":
        """Opens a connection."""
        backend = httpcore.SyncBackend()
        return _Stream(_wait_for(lambda: backend.connect_tcp(host, port, timeout, *more, **named)))

    def connect_unix_socket(self, path: str, *more: Any, **named: Any) -> httpcore.NetworkStream:
        """Is not used."""
        raise NotImplementedError

    def sleep(self, seconds: float) -> None:
        """Waits that many seconds."""
        pause(seconds)


class _Stream(httpcore.NetworkStream):
    """A connection whose waits end when their thread is called off or a head takes too long."""

    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        ends = min(_thread.head_ends, time.monotonic() + (float("inf") if timeout is None else timeout))
        while True:
            check_stop()
            now = time.monotonic()
            if now >= ends:
                raise httpcore.ReadTimeout("timed out")
            with suppress(httpcore.ReadTimeout):
                return self._stream.read(max_bytes, min(ends - now, SLICE_S))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, timeout)

    def close(self) -> None:
        self._stream.close()

    def start_tls(self, *arguments: Any, **named: Any) -> "_Stream":
        return _Stream(_wait_for(lambda: self._stream.start_tls(*arguments, **named)))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _wait_for(call: Callable[[], T]) -> T:
    """Returns what a call returns that cannot be interrupted itself, such as finding a host or shaking hands."""
    done = threading.Event()
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:
            errors.append(error)
        done.set()

    threading.Thread(target=run, daemon=True).start()
    while not done.wait(SLICE_S):
        check_stop()
    if errors:
        raise errors[0]
    return results[0]
