"""Measures what a stage uses: processor time, peak memory of each process, bytes written (Linux alone)."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from schemas.manifest import Usage

_TICKS = os.sysconf("SC_CLK_TCK")


class _Reading(NamedTuple):
    """What a process has used so far: processor seconds, and bytes that it gave the system to write."""

    cpu: float
    written: int


class UsageMeter:
    """Measures from its creation on; stages that run in the same process at the same time are measured together.

    Args:
        workers: Returns the process ids of the workers, of those that were started meanwhile too.
    """

    def __init__(self, workers: Callable[[], Sequence[int]]) -> None:
        self._workers = workers
        self._before: dict[int, _Reading] = {}
        for pid in (os.getpid(), *workers()):
            with suppress(OSError):
                self._before[pid] = _read(pid)
                Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak begins again at what is held now

    def stop(self, processes: int) -> Usage | None:
        """Returns what was used since; None where the system does not tell it.

        Args:
            processes: Number of worker processes that the stage was allowed.
        """
        cpu, written, peaks = 0.0, 0, list[int]()
        for pid in (os.getpid(), *self._workers()):
            with suppress(OSError):  # a worker that has died
                now, before = _read(pid), self._before.get(pid, _Reading(0.0, 0))
                if pid == os.getpid() or now.cpu > before.cpu:
                    cpu, written = cpu + now.cpu - before.cpu, written + now.written - before.written
                    peaks.append(_peak(pid))
        if not peaks:
            return None
        return Usage(cpu_seconds=round(cpu, 2), peak_bytes=tuple(peaks), written_bytes=written, processes=processes)


def _read(pid: int) -> _Reading:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    written = next(line for line in Path(f"/proc/{pid}/io").read_text().splitlines() if line.startswith("write_bytes"))
    return _Reading((int(words[11]) + int(words[12])) / _TICKS, int(written.split()[1]))


def _peak(pid: int) -> int:
    """Returns the peak of the memory that a process holds alone: pages of mapped files are shared and not counted."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    high, shared = (int(status[name].split()[0]) * 1024 for name in ("VmHWM", "RssFile"))
    return max(high - shared, int(status["RssAnon"].split()[0]) * 1024)
