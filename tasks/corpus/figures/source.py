"""The interface of a source of figures, and the reader of pdffigures2's lists."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol, cast

import orjson

from schemas.errors import BadInput

MAX_LIST = 32 * 2**20
"""Most bytes of a list of figures; the text inside figures makes some lists long."""

MAX_FIGURES = 1_000
"""Most figures of one paper; the rest becomes one dropped row."""

MAX_CAPTION = 5_000
"""Most characters of a caption that are kept."""

_NAME = re.compile(r"\w[\w.-]{0,199}\.(?:png|jpe?g|gif|webp)", re.ASCII | re.IGNORECASE)


class Listed(NamedTuple):
    """A figure in the list of its paper.

    Attributes:
        picture: Checked name of the picture: letters, digits, `_`, `.` and `-`, without a folder.
        kind: `Figure` or `Table`.
        page: From 0; None when the list does not say.
        caption: Trimmed; None when there is none.
    """

    picture: str
    kind: str
    page: int | None
    caption: str | None


class Unusable(NamedTuple):
    """A figure that cannot be used: its name as given, and the reason in one word."""

    picture: str | None
    reason: str


class Picture(NamedTuple):
    """A picture's bytes, unchecked, and the URL they came from (None: a file)."""

    data: bytes
    url: str | None = None


class FigureSource(Protocol):
    """Gives the figures of one paper at a time. A name from a list is never used as a path."""

    def figures(self, corpus_id: int) -> list[Listed | Unusable]:
        """Returns a paper's figures in the order of their list; none when the source does not know the paper.

        Raises:
            BadInput: The list cannot be used; the message is one word.
            TransientError: The source cannot be reached.
        """
        ...

    def picture(self, corpus_id: int, name: str) -> Picture:
        """Returns the picture `name` of a paper's list.

        Raises:
            BadInput: There is none, or it is too large; the message is one word.
            TransientError: The source cannot be reached.
        """
        ...


def read_list(data: bytes) -> list[Listed | Unusable]:
    """Reads a list of figures in pdffigures2's form: objects with `caption`, `figType`, `page` and `renderURL`.

    Only the last part of `renderURL` counts; a second figure with the same picture cannot be used.

    Raises:
        BadInput: It is too long, or not a JSON list; the message is one word.
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
