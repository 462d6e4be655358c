"""Output on the terminal: tables, text, JSON, logs, errors.

Everything that commands print goes through this module, as text: what comes from papers, files and services is never
read as rich's markup, and holds no control character of the terminal.
"""

import json
import logging
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from schemas.messages import CONTROL, hide_queries, one_line, plain

if TYPE_CHECKING:
    from flows.pipeline.summaries import Cell, Row
    from tasks.metrics.ranking import RankingTask

LONGEST_CELL = 1_000
"""Most characters of a cell in a table; `--json` shows every value in full."""

NAMES = ("corpus_id", "topic_id", "year")
"""Columns with numbers that are names: shown without thousands separators."""


def show_rows(rows: "Sequence[Mapping[str, Cell]]", title: str | None = None, decimals: int = 4) -> None:
    """Prints rows as a table on standard output, with numbers aligned right."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(plain(title)) if title else None, title_justify="left")
    for name, value in (rows[0] if rows else {"(nothing)": None}).items():
        right = isinstance(value, int | float)
        table.add_column(Text(plain(name)), justify="right" if right else "left", overflow="fold")
    for row in rows:
        cells = (str(value) if name in NAMES else _cell(value, decimals) for name, value in row.items())
        table.add_row(*(Text(_shorten(plain(cell))) for cell in cells))
    console = Console()
    (console if console.is_terminal else Console(width=160)).print(table)


def show_list(rows: "Sequence[Mapping[str, Cell]]", title: str | None = None, *, json: bool) -> None:
    """Prints rows as JSON, or as a table."""
    if json:
        show_json(rows)
    else:
        show_rows(rows, title)


def show_scores(rows: "Sequence[Row]", task: "RankingTask", what: str) -> None:
    """Prints score rows as a table of means with their intervals."""
    from flows.pipeline.summaries import people_rows

    show_rows(people_rows(rows, task), f"{task}, {what}: mean over topics (95 % bootstrap interval)")


def show_text(text: str) -> None:
    """Prints plain text on standard output, unwrapped."""
    sys.stdout.write("\n".join(map(plain, text.split("\n"))) + "\n")


def show_json(value: Any) -> None:
    """Prints a value as JSON on standard output."""
    lines = json.dumps(value, indent=1, default=str, ensure_ascii=False).split("\n")
    show_text("\n".join(CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", line) for line in lines))


def show_note(text: str) -> None:
    """Prints a line on standard error, beside what the command prints."""
    sys.stderr.write(f"{plain(text)}\n")
    sys.stderr.flush()


class PlainFormatter(logging.Formatter):
    """Formats log records as lines without control characters and without queries of URLs, which may be signed."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the lines of a record."""
        return "\n".join(map(plain, hide_queries(super().format(record)).split("\n")))


def show_logs() -> None:
    """Shows log messages on standard error from now on."""
    from rich.console import Console
    from rich.logging import RichHandler

    handler = RichHandler(console=Console(stderr=True), show_path=False, markup=False)
    handler.setFormatter(PlainFormatter())
    logging.getLogger().setLevel(logging.INFO)
    logging.getLogger().addHandler(handler)


def show_error(message: str) -> None:
    """Prints an error as one line on standard error."""
    sys.stderr.write(f"arena: {one_line(message)}\n")


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST_CELL else f"{text[:LONGEST_CELL]} [...]"


def _cell(value: "Cell", decimals: int) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.{decimals}f}"
    return f"{value:,}" if isinstance(value, int) else value
