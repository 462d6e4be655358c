"""Lets work end at once: threads that are called off.

A thread of `stoppable_pool` that waits, reads from the network or calls `check_stop` gets Stopped as soon as the pool's
owner fails or is interrupted. Other threads get a signal's exception (Ctrl-C) by themselves.
"""

import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

SLICE_S = 0.2
"""Longest wait before a thread looks whether it was called off, in seconds."""


class Stopped(Exception):
    """The work of this thread was called off."""


class _Thread(threading.local):
    """What ends the waits of one thread: its pool's event."""

    called_off: threading.Event | None = None


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
