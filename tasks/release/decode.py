"""Turns records of `papers`, `abstracts` and `citations` into rows of our tables.

A record without a usable id raises BadInput whose message is the reason in one word: `no_<field>` or `bad_<field>`. Any
other field of a wrong type is read as if it were absent, and counted as `mistyped:<field>`.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from schemas.errors import BadInput
from schemas.json import JsonObject

T = TypeVar("T")
Record = JsonObject
Row = tuple[Any, ...]

MISTYPED = "mistyped:"
"""Begins the name of a count of fields that had another type; the field's name follows."""

MAX_ID = 2**63 - 1
MAX_INT = 2**31 - 1


def read_integer(value: object) -> int | None:
    """Returns an int, or a string of up to 19 decimal digits as an int; None for anything else."""
    if type(value) is int:
        return value
    if isinstance(value, str) and len(value) <= 19 and value.isascii() and value.isdigit():
        return int(value)
    return None


def read_id(record: Record, field: str) -> int:
    """Returns the id that a record must have.

    Raises:
        BadInput: It is absent (`no_<field>`), or not an integer from 0 to 2**63 - 1 (`bad_<field>`).
    """
    value = record.get(field)
    if value is None:
        raise BadInput(f"no_{field}")
    number = read_integer(value)
    if number is None or not 0 <= number <= MAX_ID:
        raise BadInput(f"bad_{field}")
    return number


def read_optional_id(record: Record, field: str) -> int | None:
    """Returns the id in a field, None when it is null or absent; raises BadInput as `read_id` does."""
    return None if record.get(field) is None else read_id(record, field)


def read_text(record: Record, field: str) -> str | None:
    """Returns the string in a field, None when it is null or absent; raises BadInput for another type."""
    value = record.get(field)
    if value is None or type(value) is str:
        return value
    raise BadInput(f"wrong_type:{field}")


def read_object(record: Record, field: str) -> Record:
    """Returns the object in a field, empty when it is null or absent; raises BadInput for another type."""
    value = record.get(field)
    if value is None:
        return {}
    if type(value) is dict:
        return value
    raise BadInput(f"wrong_type:{field}")


def leniently(read: Callable[[Record, str], T], record: Record, field: str, notes: Counter[str]) -> T | None:
    """Returns what `read` says of a field; None, counted as `mistyped:<field>`, when the field has another type."""
    try:
        return read(record, field)
    except BadInput:
        notes[f"{MISTYPED}{field}"] += 1
        return None


def decode_paper(record: Record, notes: Counter[str]) -> Row:
    """Returns a row of `paper_records`; `notes` receives the counts of mistyped fields."""

    def text(field: str, holder: Record = record) -> str | None:
        return leniently(read_text, holder, field, notes)

    def count(field: str) -> int | None:
        return leniently(_read_count, record, field, notes)

    corpus_id = read_id(record, "corpusid")
    externals = leniently(read_object, record, "externalids", notes) or {}
    return (
        corpus_id,
        text("title"),
        _read_members(record, "authors", "name", notes),
        text("venue"),
        count("year"),
        text("publicationdate"),
        list(dict.fromkeys(_read_members(record, "s2fieldsofstudy", "category", notes))),
        _read_texts(record, "publicationtypes", notes),
        count("referencecount"),
        count("citationcount"),
        count("influentialcitationcount"),
        text("DOI", externals),
        text("ArXiv", externals),
        text("url"),
    )


def decode_abstract(record: Record, notes: Counter[str]) -> Row:
    """Returns a row of `abstract_records`; a blank abstract becomes None."""
    return read_id(record, "corpusid"), unless_blank(leniently(read_text, record, "abstract", notes))


def unless_blank(text: str | None) -> str | None:
    """Returns a text; None when it is blank."""
    return text if text and not text.isspace() else None


def decode_citation(record: Record, notes: Counter[str]) -> Row:
    """Returns a row of `citation_records`."""
    citing, cited = read_id(record, "citingcorpusid"), read_optional_id(record, "citedcorpusid")
    number = read_optional_id(record, "citationid")
    return citing, cited, leniently(_read_flag, record, "isinfluential", notes), number


def _read_flag(record: Record, field: str) -> bool | None:
    value = record.get(field)
    if value is None or type(value) is bool:
        return value
    raise BadInput(f"wrong_type:{field}")


def _read_count(record: Record, field: str) -> int | None:
    value = record.get(field)
    if value is None:
        return None
    number = read_integer(value)
    if number is None or abs(number) > MAX_INT:
        raise BadInput(f"wrong_type:{field}")
    return number


def _read_list(record: Record, field: str) -> list[Any]:
    value = record.get(field)
    if value is None:
        return []
    if type(value) is list:
        return value
    raise BadInput(f"wrong_type:{field}")


def _read_texts(record: Record, field: str, notes: Counter[str]) -> list[str]:
    """Returns the strings of a list; a list with anything else but null is counted, and the rest of it is kept."""
    values = [value for value in leniently(_read_list, record, field, notes) or [] if value is not None]
    texts = [value for value in values if type(value) is str]
    if len(texts) < len(values):
        notes[f"{MISTYPED}{field}"] += 1
    return texts


def _read_members(record: Record, field: str, member: str, notes: Counter[str]) -> list[str]:
    """Returns one string of each object of a list; as `_read_texts` does with anything else."""
    texts: list[str] = []
    mistyped = False
    for item in leniently(_read_list, record, field, notes) or []:
        text = item.get(member, "") if type(item) is dict else False
        if text is not None and type(text) is not str:
            mistyped = True
        elif text:
            texts.append(text)
    if mistyped:
        notes[f"{MISTYPED}{field}"] += 1
    return texts
