"""Makes a process end when the one that started it ends."""

import ctypes
import os
import signal
import sys

END_WITH_WORKER = "ARENA_END_WITH_WORKER"
"""Set in the environment of a worker: its runs end when it ends, even when it is killed."""

_PR_SET_PDEATHSIG = 1


def end_with_parent(number: signal.Signals = signal.SIGTERM, parent: int | None = None) -> None:
    """Asks the kernel to send this process a signal when its parent ends, so that even kill -9 leaves nothing behind.

    Only Linux can do so; elsewhere nothing is asked.

    Args:
        number: The signal.
        parent: Process id of the parent; where it has ended before the kernel was asked, this process is killed.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
    if parent is not None and os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
