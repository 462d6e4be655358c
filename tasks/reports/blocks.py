"""The parts of a report as data: HTML, Markdown, CSV and JSON all derive from them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Estimate(NamedTuple):
    """A mean with its 95 % interval; None where there is nothing to average."""

    mean: float | None
    low: float | None = None
    high: float | None = None


class Change(NamedTuple):
    """A difference between two runs and the p-value of a paired test."""

    difference: float
    p_value: float


Cell = str | int | float | Estimate | Change | None


@dataclass(frozen=True)
class TableBlock:
    """A table.

    Attributes:
        name: File name of its CSV, without extension; unique in a report.
        caption: One sentence above it.
        columns: Header texts, one a column.
        rows: Cells, as many as there are columns.
        note: Small print below it.
        best: Columns in which the highest estimate is set bold.
    """

    name: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    best: frozenset[str] = frozenset()


@dataclass(frozen=True)
class FigureBlock:
    """A figure: SVG that this project drew, and a sentence that says what it shows; a `wide` one takes a whole row."""

    name: str
    caption: str
    svg: str
    wide: bool = False


@dataclass(frozen=True)
class Section:
    """One part of a report: a heading, a lead sentence and blocks in order; folded unless `open`."""

    title: str
    lead: str
    blocks: tuple[TableBlock | FigureBlock, ...]
    open: bool = True


@dataclass(frozen=True)
class Report:
    """A whole report.

    Attributes:
        title: Its headline.
        subtitle: One sentence below it.
        sections: Its parts, in order.
        warnings: What makes the figures unfit for comparison, shown on top: a stand-in model, a limit on topics.
        links: Addresses of further pages beside it, by name.
    """

    title: str
    subtitle: str
    sections: tuple[Section, ...]
    warnings: tuple[str, ...] = field(default=())
    links: Mapping[str, str] = field(default_factory=dict[str, str])


def counted(number: int, noun: str) -> str:
    """Returns a number with its noun: `1 judge`, `1,200 judges`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
