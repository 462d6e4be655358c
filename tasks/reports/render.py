"""A report in four forms: one self-contained HTML page, Markdown, a CSV per table, JSON."""

import base64
from typing import Any

import orjson
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from schemas import spreadsheets
from tasks.reports.blocks import Cell, Change, Estimate, FigureBlock, Report, TableBlock

SENTENCE = 50
"""Letters above which a text counts as a sentence."""


def page_templates(package: str) -> Environment:
    """The templates beside a package's modules; all that is filled in is escaped, and a missing value is an error."""
    return Environment(
        loader=PackageLoader(package, "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


_templates = page_templates("tasks.reports")


def to_html(report: Report) -> str:
    """One page without outside references; every text in it is escaped, figures are embedded as images."""
    return _templates.get_template("report.html.jinja").render(
        report=report,
        cell=_html_cell,
        figure_source=_figure_source,
        is_figure=lambda block: isinstance(block, FigureBlock),
        text_columns=_text_columns,
    )


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


def _text_columns(table: TableBlock) -> frozenset[int]:
    """Columns with sentences in them: they are set to the left, and their lines may break."""
    places = range(1, len(table.columns))
    return frozenset(p for p in places if any(isinstance(r[p], str) and len(str(r[p])) > SENTENCE for r in table.rows))


def _figure_source(figure: FigureBlock) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(figure.svg.encode()).decode()


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.4g}"


def _html_cell(table: TableBlock, column: int, value: Cell) -> Markup:
    if isinstance(value, Estimate):
        best = table.columns[column] in table.best and value.mean is not None and value.mean == _highest(table, column)
        mean = Markup("<b>{}</b>" if best else "{}").format(_number(value.mean))
        if value.low is None:
            return mean
        return mean + Markup(" <small>{}-{}</small>").format(_number(value.low), _number(value.high))
    return Markup("{}").format(_plain_cell(value))


def _highest(table: TableBlock, column: int) -> float:
    cells = [row[column] for row in table.rows]
    return max(c.mean for c in cells if isinstance(c, Estimate) and c.mean is not None)


def _plain_cell(value: Cell) -> str:
    match value:
        case None:
            return "-"
        case Estimate(mean, low, high):
            return _number(mean) if low is None else f"{_number(mean)} ({_number(low)}-{_number(high)})"
        case Change(difference, p_value):
            return f"{difference:+.4f} (p {p_value:.3f})"
        case float():
            return _number(value)
        case int():
            return f"{value:,}"
        case str():
            return value


def _plain(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def _markdown_table(table: TableBlock) -> list[str]:
    lines = ["| " + " | ".join(map(_plain, table.columns)) + " |", "|" + " --- |" * len(table.columns)]
    lines += ["| " + " | ".join(_plain(_plain_cell(value)) for value in row) + " |" for row in table.rows]
    return [*lines, "", _plain(table.note)] if table.note else lines


def _spread(value: Cell) -> list[Any]:
    return list(value) if isinstance(value, Estimate | Change) else [value]


def _padded(values: list[Any], width: int) -> list[Any]:
    return [*values, *[None] * (width - len(values))]


def _json_cell(value: Cell) -> Any:
    return list(value) if isinstance(value, Estimate | Change) else value
