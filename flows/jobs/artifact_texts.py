"""Keys and texts of artifacts: foreign text is shown as it is, numbers are rounded."""

import re

from flows.pipeline.summaries import Row
from schemas.messages import plain


def artifact_key(*parts: str) -> str:
    """Returns a key that Prefect accepts: lower-case letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", "-".join(parts).lower()).strip("-")


def rounded(rows: list[Row]) -> list[Row]:
    """Returns rows whose fractions have three decimals."""
    return [{name: round(cell, 3) if isinstance(cell, float) else cell for name, cell in row.items()} for row in rows]


def escape(text: str) -> str:
    """Returns foreign text for Markdown: it is shown as it is, and makes no link, picture, emphasis, HTML or cell."""
    return re.sub(r"([\\`*_{}\[\]<>|~&!$@])|(?<=:)(?=//)|(?<=\bwww)(?=\.)", r"\\\1", plain(text))


def markdown_table(rows: list[Row]) -> str:
    """Returns rows as a Markdown table whose cells show their text as it is."""
    if not rows:
        return "(nothing)"
    names = list(rows[0])
    lines = [
        [escape(name) for name in names],
        ["---"] * len(names),
        *[[_cell(row[name]) for name in names] for row in rows],
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: str | int | float | None) -> str:
    return "" if value is None else escape(str(value))
