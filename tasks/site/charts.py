"""Charts as SVG: lines and points with axes, in colours that colour-blind readers can tell apart."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from matplotlib.ticker import MaxNLocator

from tasks.reports.svg import svg_document, svg_text

WIDTH, HEIGHT = 720, 380
LEFT, RIGHT, TOP, BOTTOM = 60, 230, 16, 46
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#b5488b", "#8a6500", "#3a91c7", "#6a51c0", "#57606a")
"""Of the first series; those after them are thin and grey."""

LETTERS = 34
"""Letters of a name beside a line."""


class Series(NamedTuple):
    """A line, or the points of one kind: its name, and (x, y) in ascending order of x."""

    name: str
    points: Sequence[tuple[float, float]]


class Axis(NamedTuple):
    """An axis: what it shows, and the texts of its ticks where they are no numbers."""

    title: str
    ticks: Sequence[str] = ()


class _Scale(NamedTuple):
    """How numbers become places."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def draw_lines(series: Sequence[Series], x: Axis, y: Axis) -> str:
    """Draws a line for each series, a dot for one of a single point; the first eight in colour, named at their ends.

    Args:
        series: The most important first.
        x: With ticks, the points' x are places among them, from 0.
        y: From 0 to the highest value.
    """
    across, up = _scales(series, x)
    parts = [*_axes(across, up, x, y)]
    for number, one in reversed(list(enumerate(series))):
        if len(one.points) == 1:
            parts += _dots(one, number, across, up, radius=3)
            continue
        places = " ".join(f"{across.at(a):.1f},{up.at(b):.1f}" for a, b in one.points)
        width, style = (2, f'class="s{number}"') if number < len(COLOURS) else (1, 'class="rule"')
        parts.append(
            f'<polyline {style} points="{places}" fill="none" stroke="{_colour(number)}" stroke-width="{width}" '
            'stroke-linejoin="round"/>'
        )
    return svg_document(WIDTH, HEIGHT, [*parts, *_names(series, up)], _STROKES)


def draw_points(series: Sequence[Series], x: Axis, y: Axis) -> str:
    """Draws a point for each series with one point; the first eight in colour with their names beside them."""
    across, up = _scales(series, x)
    parts = [*_axes(across, up, x, y)]
    for number, one in reversed(list(enumerate(series))):
        parts += _dots(one, number, across, up, radius=5)
    return svg_document(WIDTH, HEIGHT, [*parts, *_names(series, up)], _STROKES)


def _colour(number: int) -> str:
    return COLOURS[number] if number < len(COLOURS) else "#b6bec8"


def _dots(one: Series, number: int, across: _Scale, up: _Scale, radius: int) -> Iterator[str]:
    style = f'class="f s{number}"' if number < len(COLOURS) else 'class="soft"'
    for a, b in one.points:
        yield f'<circle {style} cx="{across.at(a):.1f}" cy="{up.at(b):.1f}" r="{radius}" fill="{_colour(number)}"/>'


_STROKES = (
    "<style>" + "".join(f".s{n}{{--c:{colour}}}" for n, colour in enumerate(COLOURS)) + "polyline[class^=s]"
    "{stroke:var(--c)}.f,.n{fill:var(--c)}</style>"
)


def _scales(series: Sequence[Series], x: Axis) -> tuple[_Scale, _Scale]:
    points = [point for one in series for point in one.points]
    across = [a for a, _ in points] or [0.0]
    low, high = (0.0, len(x.ticks) - 1.0) if x.ticks else (min(0.0, *across), max(across))
    most = max([b for _, b in points], default=1.0) or 1.0
    return (
        _Scale(low, high if high > low else low + 1, LEFT, WIDTH - RIGHT),
        _Scale(0.0, most * 1.05, HEIGHT - BOTTOM, TOP),
    )


def _axes(across: _Scale, up: _Scale, x: Axis, y: Axis) -> Iterator[str]:
    for value in _steps(up.high):
        place = up.at(value)
        yield f'<path class="rule" d="M{LEFT} {place:.1f}H{WIDTH - RIGHT}" stroke="#e3e7eb" fill="none"/>'
        yield _text(LEFT - 8, place + 4, f"{value:.3g}", "end")
    ticks = dict(enumerate(x.ticks)) if x.ticks else {value: f"{value:,.5g}" for value in _steps(across.high)}
    every = max(1, len(ticks) // 8)
    for number, (value, name) in enumerate(ticks.items()):
        if number % every == 0:
            yield _text(across.at(value), HEIGHT - BOTTOM + 18, name, "middle")
    yield _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, x.title, "middle")
    yield f'<text class="soft" x="{LEFT}" y="{TOP - 4}" fill="#57606a">{svg_text(y.title, 60)}</text>'


def _steps(most: float) -> list[float]:
    """Returns about five round numbers from 0 to a highest one."""
    return [float(value) for value in MaxNLocator(5).tick_values(0, most) if 0 <= value <= most]


def _names(series: Sequence[Series], up: _Scale) -> Iterator[str]:
    """Yields the names of the first series at the ends of their lines, moved apart."""
    ends = sorted((up.at(one.points[-1][1]), number) for number, one in enumerate(series[:8]) if one.points)
    least = TOP + 4.0
    for place, number in ends:
        least = max(place + 4, least)
        yield (
            f'<text class="n s{number}" x="{WIDTH - RIGHT + 10}" y="{least:.1f}" fill="{COLOURS[number]}">'
            f"{svg_text(series[number].name, LETTERS)}</text>"
        )
        least += 15


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return (
        f'<text class="soft" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="#57606a">{svg_text(text, 60)}</text>'
    )
