"""A sheet for people to fill in: one self-contained HTML page of items with yes/no boxes, and the same as CSV.

The page needs no network and no server. Its button saves the answers as the CSV that `read_answers` takes. To use
another tool, fill in the empty CSV instead. All text is escaped, and only the page's own script may run.
"""

import base64
import csv
import hashlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from schemas import spreadsheets
from schemas.errors import BadInput
from schemas.llm import Image
from tasks.reports.html import page_templates

Answer = Literal["yes", "no", "unsure", ""]

WORDS: dict[str, Answer] = {
    "": "", "yes": "yes", "y": "yes", "1": "yes", "true": "yes", "no": "no", "n": "no", "0": "no", "false": "no",
    "unsure": "unsure", "?": "unsure",
}  # fmt: skip
"""Accepted answers, in any letter case."""

HEAD = ("sheet", "number", "item")
"""The columns before those of the questions."""

_templates = page_templates("tasks.audit")


class SheetQuestion(NamedTuple):
    """A question about every item: a short name (the CSV's column) and the question itself."""

    name: str
    text: str


class Text(NamedTuple):
    """A labelled text."""

    label: str
    text: str


class Picture(NamedTuple):
    """A labelled picture; None when it is missing, which the sheet says."""

    label: str
    image: Image | None


class Drawing(NamedTuple):
    """A labelled drawing: SVG that this project made."""

    label: str
    svg: str


Part = Text | Picture | Drawing


class Item(NamedTuple):
    """One thing to judge.

    Attributes:
        item: The item's id.
        title: The heading.
        parts: What people judge by; pictures and drawings stand side by side.
        link: A web page with more; left out unless it is http or https.
    """

    item: str
    title: str
    parts: tuple[Part, ...]
    link: str | None = None


class Sheet(NamedTuple):
    """A whole sheet; `lead` says what was sampled from what, and how to answer."""

    name: str
    title: str
    lead: str
    questions: tuple[SheetQuestion, ...]
    items: tuple[Item, ...]


class Answers(NamedTuple):
    """A filled sheet: its name, and the answers to each question in the order of the file."""

    sheet: str
    by_question: dict[str, list[Answer]]


def write_sheet(sheet: Sheet, folder: Path) -> tuple[Path, Path]:
    """Writes `<name>.html` and `<name>.csv` and returns their paths.

    Raises:
        BadInput: The CSV exists already, perhaps with answers in it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    page, table = folder / f"{sheet.name}.html", folder / f"{sheet.name}.csv"
    if table.exists():
        raise BadInput(f"{table}: exists already, perhaps filled in; move it away, or give another folder")
    page.write_text(to_html(sheet), "utf-8")
    table.write_text(to_csv(sheet), "utf-8")
    return page, table


def to_csv(sheet: Sheet) -> str:
    """Returns the sheet as CSV without answers: a row for each item, an empty cell for each question."""
    rows = [
        (sheet.name, number, item.item, *("" for _ in sheet.questions)) for number, item in enumerate(sheet.items, 1)
    ]
    return spreadsheets.to_csv([[*HEAD, *(question.name for question in sheet.questions)], *rows])


def to_html(sheet: Sheet) -> str:
    """Returns the sheet as an HTML page."""
    script = _templates.get_template("sheet.js.jinja").render()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return _templates.get_template("sheet.html.jinja").render(
        sheet=sheet, script=script, digest=digest, link=_web_link, source=_source, kind=lambda part: type(part).__name__
    )


def read_answers(path: Path) -> Answers:
    """Reads a filled CSV.

    Raises:
        BadInput: The file cannot be read, is no sheet, or has a cell that is no answer; the message says which.
    """
    try:
        rows = list(csv.reader(io.StringIO(path.read_text("utf-8-sig"))))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{path}: cannot be read as a sheet ({error}); save it as CSV in UTF-8") from error
    header = [cell.strip() for cell in rows[0]] if rows else []
    if tuple(header[: len(HEAD)]) != HEAD or len(header) == len(HEAD):
        raise BadInput(
            f"{path}: expected the columns {', '.join(HEAD)} and questions, found {', '.join(header)[:200]!r}; "
            "give a sheet that arena audit wrote"
        )
    filled = [row for row in rows[1:] if any(cell.strip() for cell in row)]
    names = {row[0] for row in filled}
    if len(names) != 1:
        raise BadInput(
            f"{path}: must hold rows of one sheet, found {', '.join(sorted(names)) or 'none'}; keep sheets apart"
        )
    columns = header[len(HEAD) :]
    answers = [list(_answers(path, number, row, columns)) for number, row in enumerate(filled, 2)]
    return Answers(names.pop(), {name: [row[i] for row in answers] for i, name in enumerate(columns)})


def _answers(path: Path, line: int, row: list[str], questions: list[str]) -> Iterator[Answer]:
    cells = [*row[len(HEAD) :], *[""] * len(questions)]
    for question, cell in zip(questions, cells, strict=False):
        word = cell.strip().lower()
        if word not in WORDS:
            raise BadInput(
                f"{path}, row {line}, {question}: {cell[:40]!r} is no answer; write yes, no, unsure or nothing"
            )
        yield WORDS[word]


def _web_link(link: str | None) -> str | None:
    return link if link and urlsplit(link).scheme in ("http", "https") else None


def _source(part: Picture | Drawing) -> str:
    """Returns a picture as a data URL; a drawing shown as an image runs nothing and loads nothing."""
    if isinstance(part, Drawing):
        return f"data:image/svg+xml;base64,{base64.b64encode(part.svg.encode()).decode()}"
    assert part.image is not None
    return f"data:{part.image.media_type};base64,{base64.b64encode(part.image.data).decode()}"
