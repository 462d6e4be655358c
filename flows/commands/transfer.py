"""Shows the progress of a download: a bar, or a line every 30 seconds when there is no terminal."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console

from flows.commands.display import Watch
from flows.pipeline.pace import Pace
from tasks.release.targets import Tally


@contextmanager
def show_transfer() -> Generator[Callable[[Tally], None]]:
    """Shows the progress of a download while the context lasts; what it yields may be called from any thread."""
    pace = Pace("MB")
    with Watch(Console(stderr=True)) as watch, watch.follow("download", pace):
        yield lambda tally: pace.update(tally.present / 1e6, tally.total / 1e6)
