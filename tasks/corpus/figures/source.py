"""What a source of figures gives: a paper's figures by caption, and each one's picture."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol, cast

import orjson

from schemas.errors import BadInput

MAX_LIST = 32 * 2**20
"""Bytes of a list of figures; the text inside figures makes some of them long."""

MAX_FIGURES = 1_000
"""Figures of one paper; what comes after them is one dropped row."""

MAX_CAPTION = 5_000
"""Characters of a caption that are kept."""

_NAME = re.compile(r"\w[\w.-]{0,199}\.(?:png|jpe?g|gif|webp)", re.ASCII | re.IGNORECASE)


class Listed(NamedTuple):
    """A figure as its paper's list names it.

    Attributes:
        picture: Name of the picture, checked: no folder, letters, digits, `_`, `.` and `-` alone.
        kind: `Figure` or `Table`.
        page: From 0; None where the list does not say.
        caption: Trimmed; None where there is none.
    """

    picture: str
    kind: str
    page: int | None
    caption: str | None


class Unusable(NamedTuple):
    """A figure that cannot be used: its name as given, and why in one word."""

    picture: str | None
    reason: str


class Picture(NamedTuple):
    """A picture's bytes, unchecked, and the URL they came from (None: a file)."""

    data: bytes
    url: str | None = None


class FigureSource(Protocol):
    """Figures of papers, paper by paper. A name that a list gives is never used as a path."""

    def figures(self, corpus_id: int) -> list[Listed | Unusable]:
        """A paper's figures in the order of their list; empty where the source does not know the paper.

        Raises:
            BadInput: The list cannot be used; the message is one word.
            TransientError: The source cannot be reached.
        """
        ...

    def picture(self, corpus_id: int, name: str) -> Picture:
        """The picture `name` of a paper's list.

        Raises:
            BadInput: There is none, or it is too large; the message is one word.
            TransientError: The source cannot be reached.
        """
        ...


def read_list(data: bytes) -> list[Listed | Unusable]:
    """Reads a list of figures in pdffigures2's form: objects with `caption`, `figType`, `page` and `renderURL`.

    Of `renderURL` only the last part counts; a second figure of the same picture cannot be used.

    Raises:
        BadInput: It is too long, or no JSON list; the message is one word.
    """
    if len(data) > MAX_LIST:
        raise BadInput("list_too_large")
    try:
        entries = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise BadInput("list_not_json") from error
    if not isinstance(entries, list):
        raise BadInput("list_not_json")
    return list(_distinct(cast("list[Any]", entries)))


def _distinct(entries: list[Any]) -> Iterator[Listed | Unusable]:
    seen: set[str] = set()
    for entry in entries[:MAX_FIGURES]:
        found = _read_entry(entry)
        if isinstance(found, Listed) and found.picture in seen:
            found = Unusable(found.picture, "repeated")
        seen.add(found.picture or "")
        yield found
    if len(entries) > MAX_FIGURES:
        yield Unusable(None, "too_many_figures")


def _read_entry(entry: Any) -> Listed | Unusable:
    match entry:
        case {"renderURL": str(url), **told}:
            name = url.replace("\\", "/").rpartition("/")[2]
        case _:
            return Unusable(None, "no_picture_named")
    if not _NAME.fullmatch(name):
        return Unusable(name[:200], "bad_name")
    caption, page = told.get("caption"), told.get("page")
    return Listed(
        name,
        "Table" if told.get("figType") == "Table" else "Figure",
        page if isinstance(page, int) and not isinstance(page, bool) and 0 <= page < 2**31 else None,
        " ".join(caption[:MAX_CAPTION].split()) or None if isinstance(caption, str) else None,
    )
