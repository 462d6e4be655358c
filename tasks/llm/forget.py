"""Removes stored replies, so that their questions are asked again."""

from datetime import UTC, datetime
from typing import NamedTuple

import orjson

from schemas.errors import UsageError
from schemas.llm import CallOutcome
from tasks.llm.database import Database

_CHOSEN = """
(:outcomes = '[]' OR outcome IN (SELECT value FROM json_each(:outcomes)))
AND (:models = '[]' OR model IN (SELECT value FROM json_each(:models)))
AND (:stages = '[]' OR stage IN (SELECT value FROM json_each(:stages)))
AND (:after IS NULL OR called_at >= :after) AND (:before IS NULL OR called_at < :before)
AND key NOT IN (SELECT key FROM batched)
"""


class Choice(NamedTuple):
    """Which calls to forget: those that meet every criterion; an empty criterion is met by all.

    Attributes:
        outcomes: How the calls ended.
        models: Models by the endpoint's name.
        stages: Stages that asked.
        after: Calls that ended at this time or later; local time where it names no zone.
        before: Calls that ended earlier than this.
    """

    outcomes: tuple[CallOutcome, ...] = ()
    models: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()
    after: datetime | None = None
    before: datetime | None = None


class Forgotten(NamedTuple):
    """Number of calls of one model and stage with one outcome, and what they cost when they were made."""

    outcome: str
    model: str
    stage: str
    calls: int
    usd: float


def forget_calls(database: Database, choice: Choice, *, dry_run: bool = False) -> list[Forgotten]:
    """Removes calls from the cache and returns their numbers. Calls that wait in a batch stay.

    Args:
        database: The file behind the door.
        choice: Which calls.
        dry_run: Only counts them.

    Raises:
        UsageError: The choice names no criterion.
    """
    if not any(choice):
        raise UsageError("which answers? name an outcome, a model, a stage or a time")
    values = {
        "outcomes": orjson.dumps(choice.outcomes).decode(),
        "models": orjson.dumps(choice.models).decode(),
        "stages": orjson.dumps(choice.stages).decode(),
        "after": _stored(choice.after),
        "before": _stored(choice.before),
    }
    with database.transaction():
        counted = database.execute(
            f"SELECT outcome, model, stage, count(*), sum(nano_usd) / 1e9 FROM calls WHERE {_CHOSEN} "
            "GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
            values,
        ).fetchall()
        if not dry_run:
            database.execute(f"DELETE FROM calls WHERE {_CHOSEN}", values)
    return [Forgotten(*row) for row in counted]


def _stored(moment: datetime | None) -> str | None:
    """Returns a time in the form in which the cache stores it."""
    return moment and moment.astimezone(UTC).isoformat(timespec="seconds")
