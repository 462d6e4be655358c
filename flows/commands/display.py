"""Progress on the terminal: finished stages, and how far the running stage is.

Everything goes to standard error, so that standard output holds only what the command prints.
"""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from flows.pipeline.pace import NOTICEABLE, Pace
from flows.pipeline.walk import Executor, StageLabel, build_labelled
from schemas.manifest import Ref
from schemas.messages import plain
from schemas.settings import Resources
from tasks.store import workspace
from tasks.store.store import Request, Store

REPORT_INTERVAL = 30.0
"""Seconds between two progress lines when there is no terminal for a progress bar."""


class Watch:
    """Shows how work goes on: a bar on a terminal, a line every 30 seconds in a file; nothing before 2 seconds."""

    def __init__(self, console: Console, interval: float = REPORT_INTERVAL, soon: float = NOTICEABLE) -> None:
        self._console, self._interval, self._soon = console, interval, soon
        self._bars = Progress(
            TextColumn("{task.description:<28}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[pace]}", markup=False),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    @contextmanager
    def follow(self, name: str, pace: Pace) -> Generator[None]:
        """Shows a pace while the context lasts."""
        ended = threading.Event()
        show = self._draw if self._console.is_terminal else self._write
        thread = threading.Thread(target=show, args=(name, pace, ended), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def say(self, line: str) -> None:
        """Prints a line."""
        self._console.print(plain(line), highlight=False, markup=False, soft_wrap=True)

    def _draw(self, name: str, pace: Pace, ended: threading.Event) -> None:
        if ended.wait(self._soon):
            return
        bar = self._bars.add_task(plain(name), total=None, pace="")
        while not ended.wait(0.2):
            self._bars.update(bar, completed=pace.done, total=pace.total or None, pace=plain(str(pace)))
        self._bars.remove_task(bar)

    def _write(self, name: str, pace: Pace, ended: threading.Event) -> None:
        while not ended.wait(self._interval):
            self.say(f"{name:<40} {pace}")


class Display:
    """Executes stages in this process and shows a line for each finished stage, and how the running one goes on."""

    def __init__(self) -> None:
        self._watch = Watch(Console(stderr=True))

    def __enter__(self) -> Self:
        self._watch.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.__exit__()

    def executor(self, store: Store, resources: Resources) -> Executor:
        """Returns an executor that builds in `store`, in this process."""

        def execute(request: Request, label: StageLabel) -> Ref:
            pace = Pace()

            def report(step: workspace.Progress) -> None:
                pace.update(step.done, step.total, step.note)

            try:
                with self._watch.follow(label.slot, pace):
                    built = build_labelled(store, request, resources, label, report)
            except KeyboardInterrupt as stopped:
                raise type(stopped)(f"{label.slot}, {pace}") from stopped
            manifest = store.open(built.ref).manifest
            how = f"built in {manifest.seconds:,.1f} s" if built.executed else "cached"
            kept = f"kept {manifest.counts.kept:,} of {manifest.counts.read:,}" if manifest.counts.read else ""
            self._watch.say(f"{label.slot:<40} {how:<18} {kept}")
            return built.ref

        return execute
