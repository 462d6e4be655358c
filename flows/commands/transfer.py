"""Shows the progress of a download: a bar, or a line every few seconds when there is no terminal."""

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

from flows.commands.terminal import REPORT_INTERVAL
from tasks.release.targets import Tally


class Transfer:
    """Draws a download on standard error; may be called from any thread."""

    def __init__(self, bars: Progress, console: Console) -> None:
        self._bars, self._console, self._lock = bars, console, threading.Lock()
        self._bar, self._reported = bars.add_task("", total=None), time.monotonic()

    def __call__(self, tally: Tally) -> None:
        """Shows how much has arrived."""
        self._bars.update(self._bar, completed=tally.present, total=tally.total)
        with self._lock:
            if self._console.is_terminal or time.monotonic() - self._reported < REPORT_INTERVAL:
                return
            self._reported = time.monotonic()
        line = f"{tally.present / 1e6:,.1f} of {tally.total / 1e6:,.1f} MB"
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)


@contextmanager
def show_transfer() -> Generator[Transfer]:
    """Shows the progress of a download while the context lasts."""
    console = Console(stderr=True)
    columns = (BarColumn(bar_width=24), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        yield Transfer(bars, console)
