"""Draws the four plots of the paper's Figure 4 as SVG; equal numbers give equal bytes."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from schemas.mindmap import Shape

STYLE: dict[Any, Any] = {
    "svg.hashsalt": "research-arena",
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",
    "font.size": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": cycler(color=["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#a07000"]),
}
"""Colours that colour-blind readers can tell apart (Okabe and Ito), the last one darkened; text is kept as text."""

SIZE = (6.4, 4.0)
"""Inches."""


class Line(NamedTuple):
    """Number of nodes of a mind-map as a linear function of its depth, fitted by least squares."""

    slope: float
    intercept: float


def fit_complexity(shapes: Sequence[Shape]) -> Line | None:
    """Fits the regression line of Figure 4(d); returns None when all depths are equal."""
    if len({shape.depth for shape in shapes}) < 2:
        return None
    slope, intercept = np.polyfit([s.depth for s in shapes], [s.nodes for s in shapes], 1)
    return Line(float(slope), float(intercept))


def draw_fields(path: Path, title: str, papers: Mapping[str, int]) -> None:
    """Draws papers per field of study as bars, most frequent first (Figure 4(a), 4(b))."""
    with _figure(path, title) as axes:
        if not papers:
            _write_note(axes, "no field of study is known")
            return
        names = list(papers)[::-1]
        bars = axes.barh(names, [papers[name] for name in names])
        axes.bar_label(bars, fmt="{:,.0f}", padding=3)
        axes.margins(x=0.25)
        axes.set(xlabel="papers", xticks=[])


def draw_coverage(path: Path, coverages: Mapping[str, Sequence[float]], at_least_half: float | None) -> None:
    """Draws for each field of study the share of surveys whose coverage is at least x (Figure 4(c)).

    Args:
        path: File to write.
        coverages: Coverage of each survey, in [0, 1], by field of study.
        at_least_half: Share of all surveys with a coverage of 0.5 or more; marked in the plot.
    """
    with _figure(path, "(c) Surveys by coverage of their references") as axes:
        axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="coverage x", ylabel="share with coverage ≥ x")
        if at_least_half is None:
            _write_note(axes, "no survey with references")
            return
        for field, values in coverages.items():
            ascending = np.sort(np.asarray(values, dtype=float))
            shares = 1 - np.arange(len(ascending)) / len(ascending)
            axes.step(np.r_[0, ascending, 1], np.r_[1, shares, (ascending == 1).mean()], where="pre", label=field)
        axes.plot(0.5, at_least_half, "ko", label=f"all fields: {at_least_half:.1%} at 0.5")
        axes.axvline(0.5, color="0.6", linewidth=0.8, linestyle=":")
        axes.legend(frameon=False, fontsize=10)


def draw_complexity(path: Path, shapes: Sequence[Shape]) -> None:
    """Draws nodes against depth of each mind-map, with the regression line (Figure 4(d))."""
    with _figure(path, "(d) Size of mind-maps") as axes:
        axes.set(xlabel="maximal depth (levels)", ylabel="nodes")
        if not shapes:
            _write_note(axes, "no mind-maps in this edition")
            return
        depths = np.array([shape.depth for shape in shapes])
        axes.scatter(depths, [shape.nodes for shape in shapes], s=14, alpha=0.5, linewidths=0)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if line := fit_complexity(shapes):
            ends = np.array([depths.min(), depths.max()])
            axes.plot(ends, line.intercept + line.slope * ends, color="C1", label=f"slope {line.slope:.2f}")
            axes.legend(frameon=False)


@contextmanager
def _figure(path: Path, title: str) -> Generator[Axes]:
    """Yields axes and saves the figure at the end, without a date or a program version in the file."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=SIZE, layout="constrained")
        axes = figure.subplots()
        axes.set_title(title, loc="left", fontsize=13)
        yield axes
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})


def _write_note(axes: Axes, words: str) -> None:
    axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", va="center", color="0.35")
    axes.set(xticks=[], yticks=[])
