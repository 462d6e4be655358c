"""CSV for people: a spreadsheet shows foreign text in it as text, and never runs it as a formula."""

import csv
import io
from collections.abc import Iterable

_FORMULA = tuple("=+-@\t\n\uff1d\uff0b\uff0d\uff20")
"""What a text begins with that spreadsheets take for a formula; the last four are wide forms of the first four."""


def to_csv(rows: Iterable[Iterable[object]]) -> str:
    """Returns rows as CSV. Texts that begin like a formula get an apostrophe before them; numbers stay numbers.

    A carriage return becomes a line feed.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([_harmless(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    return out.getvalue()


def read_cell(text: str) -> str:
    """Returns the text that `to_csv` wrote into a cell."""
    return text[1:] if text.startswith("'") and _harmless(text[1:]) == text else text


def _harmless(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\r", "\n")  # a bare \r is not quoted: it would begin a row
    return f"'{text}" if len(text) > 1 and text.lstrip(" ").startswith(_FORMULA) else text
