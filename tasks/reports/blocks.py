"""What a report is made of: tables and figures as data, from which HTML, Markdown, CSV and JSON all derive."""

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
        name: File name of its CSV, unique in a report.
        caption: One sentence above it.
        columns: Header texts.
        rows: As many cells as columns each.
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
    """A figure: SVG markup of our own making, and a sentence that says what it shows; `wide`: it takes a whole row."""

    name: str
    caption: str
    svg: str
    wide: bool = False


@dataclass(frozen=True)
class Section:
    """One part of a report: a heading, a lead sentence, blocks in order; `open` False folds it away."""

    title: str
    lead: str
    blocks: tuple[TableBlock | FigureBlock, ...]
    open: bool = True


@dataclass(frozen=True)
class Report:
    """A whole report.

    `warnings` stand on top (an offline encoder, a stand-in model, a limit on topics); `links` are further pages beside
    it, by name.
    """

    title: str
    subtitle: str
    sections: tuple[Section, ...]
    warnings: tuple[str, ...] = field(default=())
    links: Mapping[str, str] = field(default_factory=dict[str, str])
