"""Draws the figures of a synthetic release: mind-maps for some surveys, other figures, and a few bad files.

The PNG of a mind-map also contains the map as text under the key `MINDMAP`, because the offline stand-in for a vision
model cannot see.
"""

import io
from pathlib import Path
from random import Random
from typing import NamedTuple

import orjson
from PIL import Image, ImageDraw, ImageFont
from PIL.PngImagePlugin import PngInfo

from schemas.mindmap import Tree, dump_tree, walk
from tasks.demo.papers import Head, PaperGenerator

MINDMAP = "mindmap"
"""Key of the text inside a PNG: the map as `schemas.mindmap.dump_tree` writes it."""

ROW, INDENT, MARGIN = 34, 150, 20
WIDTH = 900
INK, LINE, FILLS = "#1b1f24", "#8c959f", ("#d7ebff", "#ffe3c7", "#d3f2e2", "#f3dcea", "#f2edc8")

MAP_CAPTIONS = (
    "Figure 1: A taxonomy of approaches to {subject}.",
    "Figure 1: Overview of this survey: how work on {subject} is organized.",
    "Figure 1: Mind-map of {subject}.",
)
OTHER_CAPTIONS = (
    "Figure 2: Accuracy on three data sets.",
    "Figure 2: An example of an input and its output.",
    "Figure 2: Number of papers on {subject} by year.",
)


class _Figure(NamedTuple):
    """A picture with its entry in the list of figures."""

    name: str
    kind: str
    page: int
    caption: str
    data: bytes


def write_figures(folder: Path, generator: PaperGenerator, share: float, papers: int, broken: bool) -> int:
    """Writes `data/<corpus_id>.json` and `img/<corpus_id>-Figure<n>-1.png` and returns the number of surveys.

    Args:
        folder: Created when absent.
        generator: Makes the papers of the release.
        share: Share of surveys that get figures, 0 to 1; equal shares choose the same surveys.
        papers: Number of papers in the release.
        broken: Also gives the first survey a file that is not a picture, and an entry for a file outside the folder.
    """
    for inside in ("data", "img"):
        (folder / inside).mkdir(parents=True, exist_ok=True)
    written = 0
    for head in map(generator.head, range(papers)):
        random = Random(f"figures/{head.corpus_id}")  # noqa: S311
        if head.kind != "survey" or random.random() >= share:
            continue
        entries = [_write(folder, head, figure) for figure in _figures(head, generator.mindmap(head.number), random)]
        if broken and not written:
            (folder / "img" / f"{head.corpus_id}-Figure9-1.png").write_bytes(b"<html>not found</html>")
            entries += [_entry(f"{head.corpus_id}-Figure9-1.png"), _entry("../../../outside.png")]
        (folder / "data" / f"{head.corpus_id}.json").write_bytes(orjson.dumps(entries, option=orjson.OPT_INDENT_2))
        written += 1
    return written


def _figures(head: Head, tree: Tree, random: Random) -> list[_Figure]:
    subject = tree["label"].lower()
    return [
        _Figure("1", "Figure", 2, random.choice(MAP_CAPTIONS).format(subject=subject), draw_mindmap(tree)),
        _Figure("2", "Figure", 5, random.choice(OTHER_CAPTIONS).format(subject=subject), _draw_bars(random)),
        _Figure("I", "Table", 6, "Table I: Statistics of the data sets.", _draw_bars(random)),
    ]


def _write(folder: Path, head: Head, figure: _Figure) -> dict[str, object]:
    name = f"{head.corpus_id}-{figure.kind}{figure.name}-1.png"
    (folder / "img" / name).write_bytes(figure.data)
    return _entry(name, caption=figure.caption, figType=figure.kind, name=figure.name, page=figure.page)


def _entry(picture: str, **members: object) -> dict[str, object]:
    return {"caption": "Figure 9: A picture.", "figType": "Figure", "name": "9", "page": 8} | members | {
        "imageText": [],
        "regionBoundary": {"x1": 0, "y1": 0, "x2": WIDTH, "y2": WIDTH},
        "renderURL": f"img/{picture}",
        "renderDpi": 72,
    }  # fmt: skip


def draw_mindmap(tree: Tree) -> bytes:
    """Draws a tree as a PNG, one node per line, with the tree as text inside."""
    nodes = list(walk(tree))
    picture = Image.new("RGB", (WIDTH, 2 * MARGIN + ROW * len(nodes)), "white")
    draw, font = ImageDraw.Draw(picture), ImageFont.load_default(15)
    parents: list[int] = []
    for row, (label, depth) in enumerate(nodes):
        left, top = MARGIN + INDENT * min(depth, 4), MARGIN + ROW * row
        del parents[depth:]
        if parents:
            above = MARGIN + ROW * parents[-1] + ROW - 6
            draw.line([(left - 40, above), (left - 40, top + 13), (left, top + 13)], fill=LINE, width=2)
        right = left + int(draw.textlength(label, font)) + 16
        draw.rounded_rectangle((left, top, right, top + ROW - 7), 5, fill=FILLS[depth % len(FILLS)], outline=LINE)
        draw.text((left + 8, top + 4), label, fill=INK, font=font)
        parents.append(row)
    return _png(picture, dump_tree(tree))


def _draw_bars(random: Random) -> bytes:
    picture = Image.new("RGB", (480, 260), "white")
    draw = ImageDraw.Draw(picture)
    draw.line([(40, 20), (40, 230), (460, 230)], fill=INK, width=2)
    for place in range(6):
        left, height = 60 + 65 * place, random.randint(30, 190)
        draw.rectangle((left, 230 - height, left + 40, 229), fill=FILLS[place % len(FILLS)], outline=LINE)
    return _png(picture)


def _png(picture: Image.Image, mindmap: str | None = None) -> bytes:
    metadata = PngInfo()
    if mindmap:
        metadata.add_itxt(MINDMAP, mindmap)
    data = io.BytesIO()
    picture.save(data, "PNG", pnginfo=metadata)
    return data.getvalue()
