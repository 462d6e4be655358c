"""SVG documents that follow the reader's light or dark colours, also as images in a page."""

from collections.abc import Iterable
from html import escape

STYLE = (
    "<style>@media screen and (prefers-color-scheme:dark){"
    ".ground{fill:#0d1117}.ink{fill:#e6edf3}.soft{fill:#9aa6b2}.rule{stroke:#484f58}.join{stroke:#6cb2ff}"
    ".marked{fill:#12406e}.s0{--c:#5aa9e6}.s1{--c:#f08a4b}.s2{--c:#3fc79a}.s3{--c:#e39bc4}.s4{--c:#d6b13f}"
    ".s5{--c:#8fd0f5}.s6{--c:#b9a2f0}.s7{--c:#c3c9cf}}</style>"
)
"""Colours on a dark ground, by class; on a light ground the attributes of the elements decide."""


def svg_document(width: float, height: float, parts: Iterable[str], style: str = "") -> str:
    """Returns a complete SVG document on a ground of its own.

    Args:
        width: In pixels.
        height: In pixels.
        parts: Elements; text in them is escaped.
        style: Rules beside those for a dark ground.
    """
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" font-family="system-ui, sans-serif" font-size="13">'
    )
    ground = f'<rect class="ground" width="{width:g}" height="{height:g}" fill="#fff"/>'
    return "\n".join([head, style + STYLE, ground, *parts, "</svg>"])


def svg_text(text: str, most: int) -> str:
    """Returns text that is safe inside SVG: escaped, unprintable letters replaced, and cut to `most` letters."""
    shown = text if len(text) <= most else text[: most - 1] + "…"
    return escape("".join(letter if letter.isprintable() else "\ufffd" for letter in shown))
