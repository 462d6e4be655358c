"""Turns records of `papers`, `abstracts` and `citations` into rows of our tables.

An unusable record raises BadInput whose message is the reason in one word: `no_<field>`, `bad_<field>` (an invalid id)
or `wrong_type:<field>`.
"""

from typing import Any

from schemas.errors import BadInput
from schemas.json import JsonObject

Record = JsonObject
Row = tuple[Any, ...]

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


def decode_paper(record: Record) -> Row:
    """Returns a row of `paper_records`."""
    externals = read_object(record, "externalids")
    return (
        read_id(record, "corpusid"),
        read_text(record, "title"),
        _read_members(record, "authors", "name"),
        read_text(record, "venue"),
        _read_count(record, "year"),
        read_text(record, "publicationdate"),
        list(dict.fromkeys(_read_members(record, "s2fieldsofstudy", "category"))),
        _read_texts(record, "publicationtypes"),
        _read_count(record, "referencecount"),
        _read_count(record, "citationcount"),
        _read_count(record, "influentialcitationcount"),
        read_text(externals, "DOI"),
        read_text(externals, "ArXiv"),
        read_text(record, "url"),
    )


def decode_abstract(record: Record) -> Row:
    """Returns a row of `abstract_records`; a blank abstract becomes None."""
    abstract = read_text(record, "abstract")
    return read_id(record, "corpusid"), abstract if abstract and not abstract.isspace() else None


def decode_citation(record: Record) -> Row:
    """Returns a row of `citation_records`."""
    influential = record.get("isinfluential")
    if influential is not None and type(influential) is not bool:
        raise BadInput("wrong_type:isinfluential")
    return (
        read_id(record, "citingcorpusid"),
        read_optional_id(record, "citedcorpusid"),
        influential,
        read_optional_id(record, "citationid"),
    )


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


def _read_texts(record: Record, field: str) -> list[str]:
    values = [value for value in _read_list(record, field) if value is not None]
    if all(type(value) is str for value in values):
        return values
    raise BadInput(f"wrong_type:{field}")


def _read_members(record: Record, field: str, member: str) -> list[str]:
    texts: list[str] = []
    for item in _read_list(record, field):
        if type(item) is not dict or type(text := item.get(member, "")) not in (str, type(None)):
            raise BadInput(f"wrong_type:{field}")
        if text:
            texts.append(text)
    return texts
