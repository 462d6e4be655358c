"""A heat map, drawn as SVG."""

from collections.abc import Iterator, Mapping, Sequence

from tasks.reports.svg import svg_document, svg_text

ROW = 24
LABEL = 320
LEAST_CELL, LETTER = 90, 8
TOP = 40
MOST_LETTERS = 44
LIGHT, DARK = (240, 246, 252), (11, 92, 173)
"""Colours of the lowest and of the highest number."""


def draw_heat_map(
    rows: Sequence[str], columns: Sequence[str], values: Mapping[tuple[str, str], float], headings: frozenset[str]
) -> str:
    """Draws a row for each label and a column for each name; a cell without a number stays white.

    Args:
        rows: Labels, from the top.
        columns: Names, from the left.
        values: Numbers by row and column; colours range from the lowest to the highest.
        headings: Rows that are headings of those below them, without cells.

    Returns:
        A complete SVG document; all text in it is escaped.
    """
    cell = max([LEAST_CELL, *(LETTER * min(len(name), MOST_LETTERS) + 12 for name in columns)])
    width, height = LABEL + cell * len(columns) + 10, TOP + ROW * len(rows) + 10
    low, high = min(values.values(), default=0.0), max(values.values(), default=1.0)
    parts = [
        *(
            _text(LABEL + cell * at + cell // 2, TOP - 14, name, 'class="ink" text-anchor="middle" font-weight="600"')
            for at, name in enumerate(columns)
        ),
    ]
    for place, row in enumerate(rows):
        top = TOP + ROW * place
        weight = 600 if row in headings else 400
        parts.append(_text(8 if row in headings else 20, top + 17, row, f'class="ink" font-weight="{weight}"'))
        parts += _cells(top, [values.get((row, column)) for column in columns], (low, high), cell)
    return svg_document(width, height, parts)


def _cells(top: int, values: Sequence[float | None], ends: tuple[float, float], width: int) -> Iterator[str]:
    low, high = ends
    for at, value in enumerate(values):
        if value is None:
            continue
        share = (value - low) / (high - low) if high > low else 0.0
        colour = "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in zip(LIGHT, DARK, strict=True))
        left = LABEL + width * at
        yield f'<rect x="{left}" y="{top}" width="{width - 2}" height="{ROW - 2}" rx="3" fill="{colour}"/>'
        ink = "#fff" if share > 0.55 else "#1b1f24"
        yield _text(left + width // 2, top + 16, f"{value:.1f}", f'text-anchor="middle" fill="{ink}"')


def _text(x: int, y: int, text: str, style: str = 'class="ink"') -> str:
    return f'<text x="{x}" y="{y}" {style}>{svg_text(text, MOST_LETTERS)}</text>'
