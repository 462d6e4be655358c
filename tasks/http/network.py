"""Network connections whose waits end: when their thread is called off, or when the head of a reply takes too long."""

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import httpcore

from tasks.http.stop import SLICE_S, check_stop, pause

T = TypeVar("T")


class _Thread(threading.local):
    """The moment at which the head of a reply must be there, by thread."""

    head_ends: float = float("inf")


_thread = _Thread()


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
