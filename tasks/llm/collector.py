"""Keeps Python's cycle collector from looking at every call in flight, and at all that is loaded, again and again.

With 512 calls in flight it took a quarter of their processor time and found next to nothing.
"""

import gc
import threading

THRESHOLDS = (100_000, 10, 10)
"""New objects after which the collector looks while a door is open; Python's own are 700, 10, 10."""

_lock = threading.Lock()
_usual: list[tuple[int, int, int]] = []


def slow_down() -> None:
    """Lets the collector look rarely, and at nothing that exists now, until `speed_up` was called as often as this."""
    with _lock:
        _usual.append(gc.get_threshold())
        gc.freeze()
        gc.set_threshold(*THRESHOLDS)


def speed_up() -> None:
    """Ends one `slow_down`; the last one gives the collector back as it was."""
    with _lock:
        before = _usual.pop()
        if not _usual:
            gc.unfreeze()
            gc.set_threshold(*before)
