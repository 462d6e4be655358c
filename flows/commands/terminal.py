"""Output on the terminal: finished stages, progress of the running stage, tables, logs.

Everything that commands print goes through this module, as text: what comes from papers, files and services is never
read as rich's markup, and holds no control character of the terminal.
"""

import json
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, Self

from rich.console import Console
from rich.logging import RichHandler
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from flows.pipeline.summaries import Cell, Row, people_rows
from flows.pipeline.walk import Executor, StageLabel, build_labelled
from schemas.manifest import Ref
from schemas.messages import CONTROL, hide_queries, one_line, plain
from schemas.settings import Resources
from tasks.metrics.ranking import RankingTask
from tasks.store import workspace
from tasks.store.store import Request, Store

REPORT_INTERVAL = 10.0
"""Seconds between two progress lines when there is no terminal for a progress bar."""


class Display:
    """Executes stages in this process and shows a line for each finished stage and a bar for the running one.

    Everything goes to standard error, so that standard output holds only what the command prints.
    """

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._bars = Progress(
            TextColumn("{task.description:<28}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}", style="dim", markup=False),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._reported = time.monotonic()

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def executor(self, store: Store, resources: Resources) -> Executor:
        """Returns an executor that builds in `store`, in this process."""

        def execute(request: Request, label: StageLabel) -> Ref:
            bar = self._bars.add_task(label.slot, total=1, note="")
            try:
                built = build_labelled(store, request, resources, label, lambda step: self._move(bar, step))
            finally:
                self._bars.remove_task(bar)
            manifest = store.open(built.ref).manifest
            how = f"built in {manifest.seconds:,.1f} s" if built.executed else "cached"
            kept = f"kept {manifest.counts.kept:,} of {manifest.counts.read:,}" if manifest.counts.read else ""
            self._say(f"{label.slot:<40} {how:<18} {kept}")
            return built.ref

        return execute

    def _move(self, bar: TaskID, step: workspace.Progress) -> None:
        self._bars.update(bar, completed=step.done, total=step.total, note=plain(step.note))
        if self._bars.disable and time.monotonic() - self._reported > REPORT_INTERVAL:
            self._reported = time.monotonic()
            self._say(f"{step.stage:<40} {step.done} of {step.total} {step.note}")

    def _say(self, line: str) -> None:
        self._console.print(plain(line), highlight=False, markup=False, soft_wrap=True)


LONGEST_CELL = 1_000
"""Most characters of a cell in a table; `--json` shows every value in full."""

NAMES = ("corpus_id", "topic_id", "year")
"""Columns with numbers that are names: shown without thousands separators."""


def show_rows(rows: Sequence[Mapping[str, Cell]], title: str | None = None, decimals: int = 4) -> None:
    """Prints rows as a table on standard output, with numbers aligned right."""
    table = Table(title=Text(plain(title)) if title else None, title_justify="left")
    for name, value in (rows[0] if rows else {"(nothing)": None}).items():
        right = isinstance(value, int | float)
        table.add_column(Text(plain(name)), justify="right" if right else "left", overflow="fold")
    for row in rows:
        cells = (str(value) if name in NAMES else _cell(value, decimals) for name, value in row.items())
        table.add_row(*(Text(_shorten(plain(cell))) for cell in cells))
    _output().print(table)


def show_list(rows: Sequence[Mapping[str, Cell]], title: str | None = None, *, json: bool) -> None:
    """Prints rows as JSON, or as a table."""
    if json:
        show_json(rows)
    else:
        show_rows(rows, title)


def show_scores(rows: Sequence[Row], task: RankingTask, what: str) -> None:
    """Prints score rows as a table of means with their intervals."""
    show_rows(people_rows(rows, task), f"{task}, {what}: mean over topics (95 % bootstrap interval)")


def show_text(text: str) -> None:
    """Prints plain text on standard output, unwrapped."""
    _output().print("\n".join(map(plain, text.split("\n"))), highlight=False, markup=False, soft_wrap=True)


def show_json(value: Any) -> None:
    """Prints a value as JSON on standard output."""
    lines = json.dumps(value, indent=1, default=str, ensure_ascii=False).split("\n")
    show_text("\n".join(CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", line) for line in lines))


class PlainFormatter(logging.Formatter):
    """Formats log records as lines without control characters and without queries of URLs, which may be signed."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the lines of a record."""
        return "\n".join(map(plain, hide_queries(super().format(record)).split("\n")))


def show_logs() -> None:
    """Shows log messages on standard error from now on."""
    handler = RichHandler(console=Console(stderr=True), show_path=False, markup=False)
    handler.setFormatter(PlainFormatter())
    logging.getLogger().setLevel(logging.INFO)
    logging.getLogger().addHandler(handler)


def show_error(message: str) -> None:
    """Prints an error as one line on standard error."""
    Console(stderr=True).print(f"arena: {one_line(message)}", highlight=False, markup=False, soft_wrap=True)


def _output() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=160)


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST_CELL else f"{text[:LONGEST_CELL]} [...]"


def _cell(value: Cell, decimals: int) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.{decimals}f}"
    return f"{value:,}" if isinstance(value, int) else value
