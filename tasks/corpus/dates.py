"""Resolves publication dates and their precision, and the horizon of a survey."""

import calendar
import re
from datetime import MAXYEAR, MINYEAR, date
from typing import Literal, NamedTuple

from schemas.settings import YearOnlySurvey

Precision = Literal["day", "month", "year", "none"]
DATE = re.compile(r"([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2}))?)?")
PRECISIONS: dict[int | None, Precision] = {1: "year", 2: "month", 3: "day"}


class Publication(NamedTuple):
    """A resolved date.

    `unparseable`: the record's date cannot be read. `disagrees`: its date and its year differ.
    """

    date: date | None
    precision: Precision
    unparseable: bool = False
    disagrees: bool = False


def resolve_date(given: str | None, year: int | None) -> Publication:
    """Returns the latest day that a record's date and year allow.

    Args:
        given: `YYYY-MM-DD`, `YYYY-MM` (its last day) or `YYYY` (31 December); anything else counts as unparseable, and
            the year is used instead.
        year: Used without a date; where both are given and differ, the date wins.

    Source: section 3.2 of the ResearchArena paper (year only: 31 December).
    """
    text = (given or "").strip()
    found = _parse(text)
    if found is not None:
        return Publication(*found, disagrees=year is not None and found[0].year != year)
    if year is not None and MINYEAR <= year <= MAXYEAR:
        return Publication(date(year, 12, 31), "year", unparseable=bool(text))
    return Publication(None, "none", unparseable=bool(text) or year is not None)


def _parse(text: str) -> tuple[date, Precision] | None:
    match = DATE.fullmatch(text)
    if match is None:
        return None
    year, month = int(match[1]), int(match[2] or 12)
    try:
        day = int(match[3]) if match[3] else calendar.monthrange(year, month)[1]
        return date(year, month, day), PRECISIONS[match.lastindex]
    except ValueError:
        return None


def horizon_of(published: date | None, precision: str, policy: YearOnlySurvey) -> date | None:
    """Returns the date before which a survey's documents must be published, or None when it has no horizon.

    Args:
        published: The survey's resolved date.
        precision: Precision of that date; the policy applies to `year` alone.
        policy: `dec31`, `jan1` (strictest against leakage) or `drop`.
    """
    if published is None or precision != "year" or policy == "dec31":
        return published
    return date(published.year, 1, 1) if policy == "jan1" else None
