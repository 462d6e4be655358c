"""An outline in Markdown as a mind-map."""

import re

from schemas.mindmap import Tree, load_tree

BACK_MATTER = frozenset(
    {
        "references", "external links", "see also", "notes", "bibliography", "further reading", "summary", "appendix",
    }
)  # fmt: skip
"""Sections that are left out with all that is below them: lower case, without number or colon."""

_BULLET = re.compile(r"[-*+•]\s+(.*)$")
_CITATIONS = re.compile(r"\[\d+(?:\s*[,;-]\s*\d+)*\]")


def parse_outline(text: str) -> Tree:
    """Returns the canonical tree of an outline, under a virtual root.

    `#` headings are nodes at the level of their number of `#`; one that jumps levels hangs from the nearest heading
    above it. A bullet is a child of the heading it stands under. Other lines are passed over, citations such as [3] are
    taken out, and sections of `BACK_MATTER` are left out. Headings that repeat stay nodes of their own.

    Args:
        text: Markdown as models write it; it may stand in a code fence.

    Raises:
        BadInput: No heading and no bullet is left.

    Source:
        STORM's outline format (Shao et al., NAACL 2024), whose own reader merges headings that repeat.
    """
    top: list[Tree] = []
    path: list[tuple[int, list[Tree]]] = [(0, top)]
    skipped_level: int | None = None
    for line in map(str.strip, text.splitlines()):
        if line.startswith("#"):
            text_of_heading = line.lstrip("#")
            level, label = len(line) - len(text_of_heading), _label(text_of_heading)
            if skipped_level is not None and level > skipped_level:
                continue
            skipped_level = level if _is_back_matter(label) else None
            if skipped_level is not None:
                continue
            while path[-1][0] >= level:
                path.pop()
            node = Tree(label=label, children=[])
            path[-1][1].append(node)
            path.append((level, node["children"]))
        elif skipped_level is None and (bullet := _BULLET.match(line)):
            path[-1][1].append(Tree(label=_label(bullet[1]), children=[]))
    return load_tree(top)


def _label(text: str) -> str:
    words = _CITATIONS.sub("", text).split()
    if words and not words[-1].strip("#"):  # a heading may be closed by as many marks as open it
        words.pop()
    return " ".join(words).strip("*_")


def _is_back_matter(label: str) -> bool:
    return re.sub(r"^[\d.\s]+|[:.\s]+$", "", label).casefold() in BACK_MATTER
