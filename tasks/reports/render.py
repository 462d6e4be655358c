"""A report as text: Markdown, a CSV per table, JSON."""

from typing import Any

import orjson

from schemas import spreadsheets
from tasks.reports.blocks import Cell, Change, Estimate, Label, Report, TableBlock


def to_markdown(report: Report) -> str:
    """The report's tables as GitHub-flavoured Markdown; figures are named, not drawn."""
    lines = [f"# {report.title}", "", report.subtitle, *(f"[{n}]({href})" for n, href in report.links.items()), ""]
    lines += [f"> {warning}" for warning in report.warnings]
    for section in report.sections:
        lines += ["", f"## {section.title}", "", section.lead]
        for block in section.blocks:
            lines += ["", f"**{_plain(block.caption)}**", ""]
            if isinstance(block, TableBlock):
                lines += _markdown_table(block)
            else:
                lines += [f"![{block.name}]({block.name}.svg)"]
    return "\n".join(lines) + "\n"


def to_csv(table: TableBlock) -> str:
    """One table as CSV: an estimate becomes three columns (mean, low, high), a change two."""
    header: list[str] = []
    widths = [max((len(_spread(row[i])) for row in table.rows), default=1) for i in range(len(table.columns))]
    for column, width in zip(table.columns, widths, strict=True):
        header += {1: [column], 2: [column, f"{column} p"], 3: [column, f"{column} low", f"{column} high"]}[width]
    rows = (zip(row, widths, strict=True) for row in table.rows)
    spread = ([v for item, width in row for v in _padded(_spread(item), width)] for row in rows)
    return spreadsheets.to_csv([header, *spread])


def to_json(report: Report) -> bytes:
    """All tables as JSON, by name: columns and rows; estimates are [mean, low, high]."""
    tables = {
        block.name: {
            "caption": block.caption,
            "columns": block.columns,
            "rows": [list(map(_json_cell, row)) for row in block.rows],
        }
        for section in report.sections
        for block in section.blocks
        if isinstance(block, TableBlock)
    }
    content = {"title": report.title, "subtitle": report.subtitle, "warnings": report.warnings, "tables": tables}
    return orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def show_number(value: float | None, largest: float = 0) -> str:
    """Returns a number as tables show it: `.1234` below 1, `12.34` from there, `12,345` from 10,000.

    Args:
        value: The number.
        largest: Of the column's numbers, which have the same places: four up to 1, three below 10, one from there.
    """
    if value is None:
        return "-"
    if largest > 1:
        return f"{value:,.{3 if largest < 10 else 1}f}"
    if abs(value) < 1 or largest:
        return f"{value:.4f}".replace("0.", ".", 1)
    return f"{value:.4g}" if abs(value) < 10_000 else f"{value:,.0f}"


def plain_cell(value: Cell, largest: float = 0) -> str:
    """Returns a cell as text; `largest` as in `show_number`."""
    match value:
        case None:
            return "-"
        case Label(text, name):
            return f"{text} ({name})" if name and name != text else text
        case Estimate(mean, low, high):
            shown, *ends = (show_number(number, largest) for number in (mean, low, high))
            return shown if low is None else f"{shown} ({'-'.join(ends)})"
        case Change(difference, p_value):
            sign = "+" if difference >= 0 else ""
            return f"{sign}{show_number(difference, largest)} ({_p(p_value)})"
        case float():
            return show_number(value, largest)
        case int():
            return f"{value:,}"
        case str():
            return value


def _p(value: float) -> str:
    return "p < .001" if value < 0.001 else f"p {value:.3f}".replace("0.", ".", 1)


def _plain(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def _markdown_table(table: TableBlock) -> list[str]:
    lines = ["| " + " | ".join(map(_plain, table.columns)) + " |", "|" + " --- |" * len(table.columns)]
    shown = (map(plain_cell, row, table.largest) for row in table.rows)
    lines += ["| " + " | ".join(map(_plain, row)) + " |" for row in shown]
    return [*lines, "", _plain(table.note)] if table.note else lines


def _spread(value: Cell) -> list[Any]:
    match value:
        case Label():
            return [str(value)]
        case Estimate(mean, low, high):
            return [mean, low, high]
        case Change():
            return list(value)
        case _:
            return [value]


def _padded(values: list[Any], width: int) -> list[Any]:
    return [*values, *[None] * (width - len(values))]


def _json_cell(value: Cell) -> Any:
    spread = _spread(value)
    return spread if isinstance(value, Estimate | Change) else spread[0]
