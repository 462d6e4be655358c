"""The parts of a report as data: HTML, Markdown, CSV and JSON all derive from them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple


class Estimate(NamedTuple):
    """A mean with its 95 % interval, and what it is over; None where there is nothing to average."""

    mean: float | None
    low: float | None = None
    high: float | None = None
    of: int | None = None


class Change(NamedTuple):
    """A difference between two runs and the p-value of a paired test."""

    difference: float
    p_value: float


class Mark(NamedTuple):
    """A word beside a name that says what sets a system apart, and the sentence that explains it."""

    word: str
    meaning: str


class Label(NamedTuple):
    """What a row is about.

    Attributes:
        text: The name that people say.
        name: The name in files and commands, shown on demand; empty: there is no other.
        marks: What sets it apart.
        page: Its page in the site, relative to the edition's folder, without ending; empty: it has none.
        link: Its page elsewhere, an address of https; empty: it has none.
    """

    text: str
    name: str = ""
    marks: tuple[Mark, ...] = ()
    page: str = ""
    link: str = ""

    def __str__(self) -> str:
        """The name in files."""
        return self.name or self.text


Cell = str | int | float | Estimate | Change | Label | None

FEW = 10
"""Intervals over fewer topics, queries or questions are shown in grey."""


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
        leaders: Rows that are set bold instead, by column: those that cannot be told apart from the best.
        drawn: Columns whose intervals are drawn.
        explained: What a column holds, in one line.
        facets: Values of the rows to filter by, as many as rows, by what they are.
    """

    name: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    best: frozenset[str] = frozenset()
    leaders: Mapping[str, frozenset[int]] = field(default_factory=dict[str, frozenset[int]])
    drawn: frozenset[str] = frozenset()
    explained: Mapping[str, str] = field(default_factory=dict[str, str])
    facets: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    @property
    def marks(self) -> dict[str, str]:
        """What the marks of the table mean, by word."""
        return {
            mark.word: mark.meaning
            for row in self.rows
            for cell in row
            if isinstance(cell, Label)
            for mark in cell.marks
        }

    @cached_property
    def largest(self) -> tuple[float, ...]:
        """The largest magnitude among each column's estimates and changes, or among its numbers where all are up to 1.

        It is 0 for any other column, which may hold numbers of several kinds.
        """
        return tuple(_largest([row[place] for row in self.rows]) for place in range(len(self.columns)))

    @property
    def has_names(self) -> bool:
        """Whether rows have names in files besides those that people say."""
        return any(isinstance(cell, Label) and cell.name for row in self.rows for cell in row)

    @property
    def has_few(self) -> bool:
        """Whether an interval rests on so few subjects that it is shown in grey."""
        return any(isinstance(cell, Estimate) and is_few(cell) for row in self.rows for cell in row)


def _largest(cells: Sequence[Cell]) -> float:
    if numbers := [number for cell in cells for number in _magnitudes(cell)]:
        return max(numbers)
    plain = max((abs(cell) for cell in cells if isinstance(cell, float)), default=0)
    return plain if plain <= 1 else 0


def _magnitudes(cell: Cell) -> Iterator[float]:
    match cell:
        case Estimate(mean, low, high):
            yield from (abs(number) for number in (mean, low, high) if number is not None)
        case Change(difference):
            yield abs(difference)
        case _:
            return


def is_few(cell: Estimate) -> bool:
    """Returns whether an interval rests on so few subjects that it says little."""
    return cell.low is not None and cell.of is not None and cell.of < FEW


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
