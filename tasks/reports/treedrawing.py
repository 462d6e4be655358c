"""Trees drawn as SVG: one alone, or two side by side with matching headings marked and joined by lines."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from schemas.mindmap import VIRTUAL_ROOT, Tree, walk
from tasks.reports.svg import svg_document, svg_text

ROW = 20
INDENT = 18
COLUMN = 430
GAP = 110
TOP = 34
LETTERS = 52
"""Letters of a heading that fit in a column; indentation takes two per level."""

MOST_ROWS = 90
"""Nodes of a tree that are drawn: the first ones of a larger tree, in order."""


class _Row(NamedTuple):
    """A drawn node: its heading, its level, and the row of its parent."""

    label: str
    level: int
    parent: int | None


def draw_trees(gold: Tree, built: Tree, matches: Mapping[str, str]) -> str:
    """Draws a gold tree (left) and a built one (right).

    Args:
        gold: Canonical.
        built: Canonical.
        matches: The matching heading of the built tree, by heading of the gold tree.

    Returns:
        A complete SVG document; all text in it is escaped.
    """
    left, right = _rows(gold), _rows(built)
    shown = min(MOST_ROWS, max(len(left), len(right)))
    parts = [
        *_joins(left, right, matches),
        *_column(_heading("Gold", left, set(matches)), left, 10, set(matches)),
        *_column(_heading("Built", right, set(matches.values())), right, COLUMN + GAP, set(matches.values())),
    ]
    return _document(2 * COLUMN + GAP, shown, parts)


def draw_tree(tree: Tree) -> str:
    """Draws one canonical tree; returns a complete SVG document in which all text is escaped."""
    rows = _rows(tree)
    levels = max(row.level for row in rows) + 1
    return _document(COLUMN + 10, min(MOST_ROWS, len(rows)), _column(f"{len(rows)} nodes, {levels} levels", rows, 10))


def _document(width: int, rows: int, parts: Iterable[str]) -> str:
    return svg_document(width, TOP + (rows + 1) * ROW, parts)


def _heading(title: str, rows: Sequence[_Row], matches: set[str]) -> str:
    return f"{title}: {len(rows)} nodes, {sum(row.label in matches for row in rows)} matched"


def _rows(tree: Tree) -> list[_Row]:
    """Returns the nodes in order, without the virtual root."""
    nodes = list(walk(tree))
    first = int(nodes[0][0] == VIRTUAL_ROOT)
    rows: list[_Row] = []
    path: list[int] = []
    for label, depth in nodes[first:]:
        level = depth - first
        del path[level:]
        rows.append(_Row(label, level, path[-1] if path else None))
        path.append(len(rows) - 1)
    return rows


def _column(heading: str, rows: Sequence[_Row], x: int, matches: Collection[str] = ()) -> Iterator[str]:
    yield f'<text class="ink" x="{x}" y="20" font-weight="600">{heading}</text>'
    for place, row in enumerate(rows[:MOST_ROWS]):
        left, middle = x + min(row.level, 12) * INDENT, TOP + place * ROW + ROW // 2
        if row.parent is not None:
            above = TOP + row.parent * ROW + ROW - 2
            line = f"M{left - INDENT + 4} {above}V{middle}H{left - 2}"
            yield f'<path class="rule" d="{line}" fill="none" stroke="#b6bec8"/>'
        if row.label in matches:
            size = f'width="{x + COLUMN - left - 20}" height="16"'
            yield f'<rect class="marked" x="{left}" y="{middle - 8}" {size} fill="#d7ebff"/>'
        mark = "● " if row.label in matches else ""
        label = svg_text(row.label, LETTERS - 2 * min(row.level, 12))
        yield f'<text class="ink" x="{left + 3}" y="{middle + 4}" fill="#1b1f24">{mark}{label}</text>'
    if len(rows) > MOST_ROWS:
        bottom = TOP + MOST_ROWS * ROW + 14
        yield f'<text class="soft" x="{x}" y="{bottom}" fill="#57606a">and {len(rows) - MOST_ROWS} more nodes</text>'


def _joins(left: Sequence[_Row], right: Sequence[_Row], matches: Mapping[str, str]) -> Iterator[str]:
    """Yields a line from each gold heading to the first node with the matching heading."""
    where = {row.label: place for place, row in reversed(list(enumerate(right)))}
    for place, row in enumerate(left[:MOST_ROWS]):
        other = where.get(matches.get(row.label, ""), MOST_ROWS)
        if other < MOST_ROWS:
            ends = [TOP + number * ROW + ROW // 2 for number in (place, other)]
            line = f"M{COLUMN - 10} {ends[0]}L{COLUMN + GAP - 4} {ends[1]}"
            yield f'<path class="join" d="{line}" stroke="#0b5cad" opacity=".5"/>'
