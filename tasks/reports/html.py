"""Pages: the templates that the report and the site share, and what draws a cell of a table."""

import base64
from collections.abc import Sequence
from functools import cache
from typing import Any
from urllib.parse import quote

import orjson
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tasks.reports.blocks import FEW, Cell, Estimate, FigureBlock, Label, Report, TableBlock, is_few
from tasks.reports.render import plain_cell, show_number

SENTENCE = 50
"""Letters above which a text counts as a sentence."""

BAR = 96
"""Width of a drawn interval in pixels."""


@cache
def page_templates(*packages: str) -> Environment:
    """The templates beside modules of these packages; all that is filled in is escaped, a missing value is an error."""
    found = Environment(
        loader=ChoiceLoader([PackageLoader(package, ".") for package in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    helpers: dict[str, Any] = {
        "cell": _html_cell,
        "cell_class": _cell_class,
        "column_class": _column_class,
        "column_classes": _column_classes,
        "facets_of": _facets_of,
        "few": FEW,
        "figure_source": _figure_source,
        "is_figure": lambda block: isinstance(block, FigureBlock),
        "show_cell": _show_cell,
    }
    found.globals.update(helpers)
    return found


def to_html(report: Report) -> str:
    """One page without outside references; every text in it is escaped, figures are embedded as images."""
    return page_templates("tasks.reports").get_template("report.html.jinja").render(report=report)


def _column_classes(table: TableBlock) -> list[str]:
    """Returns how each column is set: `name` what a row is about, `text` sentences, `word` words, empty: numbers."""
    columns = [[row[place] for row in table.rows if row[place] is not None] for place in range(len(table.columns))]
    classes = [_class_of([cell.text if isinstance(cell, Label) else cell for cell in cells]) for cells in columns]
    classes[_heading_column(table)] = "name"
    return classes


def _class_of(cells: Sequence[Cell]) -> str:
    words = [cell for cell in cells if isinstance(cell, str)]
    if any(len(word) > SENTENCE for word in words):
        return "text"
    return "word" if words and len(words) == len(cells) and all(word[:1].isalpha() for word in words) else ""


def _figure_source(figure: FigureBlock) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(figure.svg.encode()).decode()


def _facets_of(block: TableBlock, row: int) -> str:
    return orjson.dumps([values[row] for values in block.facets.values()]).decode()


def _html_cell(table: TableBlock, row: int, column: int, at: str | None = None) -> Markup:
    """Returns a cell; with `at`, the way from the page to its edition's folder, labels lead to their pages."""
    value = table.rows[row][column]
    if isinstance(value, Label):
        return _html_label(value, at)
    largest = table.largest[column]
    if not isinstance(value, Estimate):
        return Markup("{}").format(plain_cell(value, largest))
    shown, *ends = (show_number(number, largest) for number in (value.mean, value.low, value.high))
    mean = Markup("<b>{}</b>" if _is_best(table, row, column) else "{}").format(shown)
    if value.low is None:
        return mean
    size = Markup(' class="few"') if is_few(value) else ""
    interval = Markup(" <small{}>{}-{}</small>").format(size, *ends)
    return mean + interval + (_bar(table, column, value) if table.columns[column] in table.drawn else "")


def _show_cell(value: Cell, at: str | None = None) -> Markup:
    """Returns a cell that stands in no table."""
    return _html_cell(TableBlock("", "", ("",), ((value,),)), 0, 0, at)


def _html_label(label: Label, at: str | None) -> Markup:
    if at is not None and label.page:
        shown = Markup('<a href="{}{}.html">{}</a>').format(at, quote(label.page), label.text)
    elif at is not None and label.link.startswith("https://"):
        shown = Markup('<a href="{}" rel="noopener">{}</a>').format(label.link, label.text)
    else:
        shown = Markup("{}").format(label.text)
    marks = Markup("").join(
        Markup(' <span class="mark" title="{}">{}</span>').format(mark.meaning, mark.word) for mark in label.marks
    )
    return shown + marks + (Markup(' <small class="tag">{}</small>').format(label.name) if label.name else "")


def _is_best(table: TableBlock, row: int, column: int) -> bool:
    name, value = table.columns[column], table.rows[row][column]
    if name in table.leaders:
        return row in table.leaders[name]
    return (
        name in table.best
        and isinstance(value, Estimate)
        and value.mean is not None
        and value.mean == _highest(table, column)
    )


def _bar(table: TableBlock, column: int, value: Estimate) -> Markup:
    """Draws an interval on a line from 0 to the column's highest end."""
    most = table.largest[column] or 1
    mean, low, high = (round(BAR * max(number or 0, 0) / most, 1) for number in value[:3])
    return Markup(
        '<svg class="iv" width="{w}" height="8" viewBox="-3 0 {v} 8" aria-hidden="true">'
        '<line class="base" x2="{b}" y1="4" y2="4"/><line x1="{l}" x2="{h}" y1="4" y2="4"/>'
        '<circle cx="{m}" cy="4" r="2.5"/></svg>'
    ).format(w=BAR, v=BAR + 6, b=BAR, l=low, h=high, m=mean)


def _heading_column(table: TableBlock) -> int:
    """Returns the column that says what a row is about: the first with labels, or the first of all."""
    places = range(len(table.columns))
    return next((place for place in places if table.rows and isinstance(table.rows[0][place], Label)), 0)


def _column_class(name: str) -> Markup:
    return Markup(' class="{}"').format(name) if name else Markup("")


def _cell_class(table: TableBlock, column: int, name: str) -> Markup:
    return _column_class("bar" if table.columns[column] in table.drawn else name)


def _highest(table: TableBlock, column: int) -> float:
    cells = [row[column] for row in table.rows]
    return max(c.mean for c in cells if isinstance(c, Estimate) and c.mean is not None)
