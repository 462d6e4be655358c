"""The data card of an export: what it holds, how it may be used, and under which terms."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from schemas.messages import plain
from tasks.exports.edition import Edition
from tasks.exports.public import LABELS, LICENCE, RULES, TERMS, has_only_questions, question_records

Configurations = Mapping[str, Sequence[str]]
"""Paths of the files of each table that `datasets` can load."""

# A card is Markdown: nothing in it comes from papers.
_templates = Environment(
    loader=PackageLoader("tasks.exports"), undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True
)


def write_card(edition: Edition, folder: Path, configurations: Configurations | None = None) -> Path:
    """Writes `README.md` and returns its path.

    Args:
        edition: What is exported.
        folder: Folder of the export.
        configurations: For the metadata that `datasets` reads; none for other formats.
    """
    return render("card.md.jinja", folder / "README.md", edition, configurations=configurations or {})


def render(template: str, path: Path, edition: Edition, **words: object) -> Path:
    """Writes a file from a template of this room and returns its path."""
    text = _templates.get_template(template).render(
        edition=plain(edition.name),
        part=edition.part,
        topics=0 if has_only_questions(edition) else len(edition.topics()),
        questions=len(list(question_records(edition))),
        labels=LABELS,
        licence=LICENCE,
        terms=TERMS,
        rules=RULES,
        **words,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
