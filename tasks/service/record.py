"""The record: one chained row for everything that happens in a run, and the check that none was changed or lost."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from schemas.errors import StoreError
from schemas.submission import Recorded
from schemas.tables.runs import SearchRow
from tasks.llm.database import Database
from tasks.store.hashes import Problem
from tasks.submissions.deposits import FOLDER

FILE = Path("served") / "record.sqlite"
"""The record's file in a store."""

FIRST = "0" * 64
"""The hash before the first row."""

TABLES = """
CREATE TABLE IF NOT EXISTS runs (
  id INTEGER PRIMARY KEY, edition TEXT NOT NULL, name TEXT NOT NULL, task TEXT NOT NULL, token TEXT NOT NULL UNIQUE,
  opened TEXT NOT NULL, state TEXT NOT NULL, scores TEXT NOT NULL, sequence INTEGER NOT NULL, head TEXT NOT NULL,
  UNIQUE (edition, name)
);
CREATE TABLE IF NOT EXISTS topics (
  run INTEGER NOT NULL, place INTEGER NOT NULL, topic TEXT NOT NULL, shown TEXT NOT NULL, attempt INTEGER NOT NULL,
  deadline REAL NOT NULL, searches INTEGER NOT NULL, documents INTEGER NOT NULL, outcome TEXT, submitted INTEGER,
  PRIMARY KEY (run, place)
);
CREATE TABLE IF NOT EXISTS tokens (
  hash TEXT PRIMARY KEY, run INTEGER NOT NULL, place INTEGER NOT NULL, attempt INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS calls (
  run INTEGER NOT NULL, sequence INTEGER NOT NULL, topic TEXT, line BLOB NOT NULL, hash TEXT NOT NULL,
  PRIMARY KEY (run, sequence)
);
CREATE INDEX IF NOT EXISTS calls_of_topics ON calls (run, topic);
"""


class Call(NamedTuple):
    """One thing that happened in a run.

    Attributes:
        call: `open`, `lease`, `search`, `submit` ...
        topic: The topic's own id; None for what concerns the run.
        arguments: As the client sent them.
        status: HTTP status of the answer.
        returned: Documents or papers that were returned.
        search: The row of table `searches`, of calls that have one; it says how much was removed and why.
        milliseconds: Time it took.
    """

    call: str
    topic: str | None
    arguments: dict[str, Any]
    status: int = 200
    returned: tuple[Any, ...] = ()
    search: SearchRow | None = None
    milliseconds: float = 0.0


def open_record(root: Path) -> Database:
    """Opens the record of a store, and creates it where there is none."""
    return Database(root / FILE, TABLES, "the record of served runs")


def append(db: Database, run: int, call: Call, time: str, quotas_left: dict[str, int] | None = None) -> int:
    """Adds a row to a run's chain, inside a transaction; returns its number, from 1."""
    sequence, head = db.execute("SELECT sequence, head FROM runs WHERE id = ?", (run,)).fetchone()
    line = write_line(
        {
            "sequence": sequence + 1,
            "time": time,
            "topic": call.topic,
            "call": call.call,
            "arguments": call.arguments,
            "status": call.status,
            "returned": call.returned,
            "removed": _removed(call.search),
            "search": None if call.search is None else call.search._asdict(),
            "quotas_left": quotas_left,
            "milliseconds": round(call.milliseconds, 3),
            "previous": head,
        }
    )
    found = hashlib.sha256(line).hexdigest()
    db.execute("INSERT INTO calls VALUES (?, ?, ?, ?, ?)", (run, sequence + 1, call.topic, line, found))
    db.execute("UPDATE runs SET sequence = ?, head = ? WHERE id = ?", (sequence + 1, found, run))
    return sequence + 1


def write_line(value: Any) -> bytes:
    """Returns a value as one line of JSON, with whole numbers of any size.

    Raises:
        ValueError: JSON or UTF-8 cannot hold it.
    """
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _removed(search: SearchRow | None) -> dict[str, int]:
    if search is None:
        return {}
    return {"survey": search.dropped_survey, "date": search.dropped_date, "self": search.dropped_self}


def read_calls(db: Database, run: int, topic: str | None = None) -> Iterator[dict[str, Any]]:
    """Yields the rows of a run, or of one of its topics, in order."""
    where, values = ("run = ?", (run,)) if topic is None else ("run = ? AND topic = ?", (run, topic))
    for (line,) in db.execute(f"SELECT line FROM calls WHERE {where} ORDER BY sequence", values):
        yield json.loads(line)


def export_calls(db: Database, edition: str, run: str) -> Iterator[bytes]:
    """Yields a run's rows as lines of JSON, as they were hashed: each names the hash of the line before it."""
    query = "SELECT line FROM calls JOIN runs ON run = id WHERE edition = ? AND name = ? ORDER BY calls.sequence"
    for (line,) in db.execute(query, (edition, run)):
        yield line


def served_runs(db: Database, edition: str) -> list[str]:
    """Returns the names of an edition's served runs."""
    return [name for (name,) in db.execute("SELECT name FROM runs WHERE edition = ? ORDER BY name", (edition,))]


def record_problems(root: Path, edition: str) -> list[Problem]:
    """Returns the first row of each of an edition's served runs that was changed or lost.

    A run that is finished holds the number of its rows and the last hash in what was handed in, too.
    """
    finished = dict(_finished(root, edition))
    if not finished and not (root / FILE).is_file():
        return []
    db = open_record(root)
    try:
        runs = dict(db.execute("SELECT name, id FROM runs WHERE edition = ?", (edition,)).fetchall())
        checked = ((name, _broken(db, runs.get(name), finished.get(name))) for name in sorted(runs | finished))
        return [Problem(root / FILE, f"run {name}: {what}") for name, what in checked if what]
    finally:
        db.close()


def _finished(root: Path, edition: str) -> Iterator[tuple[str, Recorded]]:
    """Yields the served runs that were handed in to an edition."""
    for path in sorted((root / FOLDER / edition).glob("*.jsonl")):
        with path.open("rb") as file:
            recorded = json.loads(file.readline()).get("recorded")
        if recorded:
            yield path.stem, Recorded(**recorded)


def _broken(db: Database, run: int | None, finished: Recorded | None) -> str | None:
    if run is None:
        return "the record is missing"
    if finished:
        row = db.execute("SELECT hash FROM calls WHERE run = ? AND sequence = ?", (run, finished.rows)).fetchone()
        if row is None or row[0] != finished.head:
            return f"row {finished.rows} of the record is not the one that was there when the run was finished"
    return broken_row(db, run)


def broken_row(db: Database, run: int) -> str | None:
    """Returns which row of a run is the first that was changed or is missing; None: all are as they were written."""
    last, head = db.execute("SELECT sequence, head FROM runs WHERE id = ?", (run,)).fetchone()
    before, place = FIRST, 0
    for sequence, line, found in db.execute(
        "SELECT sequence, line, hash FROM calls WHERE run = ? ORDER BY sequence", (run,)
    ):
        place += 1
        if sequence != place:
            return f"row {place} of {last} of the record is missing"
        same = isinstance(line, bytes) and hashlib.sha256(line).hexdigest() == found
        if not same or json.loads(line)["previous"] != before:
            return f"row {place} of {last} of the record was changed"
        before = found
    if place != last or before != head:
        return f"row {place + 1} of {last} of the record is missing"
    return None


def require_whole(db: Database, run: int) -> None:
    """Checks a run's rows.

    Raises:
        StoreError: One was changed or is missing.
    """
    if what := broken_row(db, run):
        raise StoreError(f"the run cannot be finished: {what}; restore {FILE} from a copy, or open another run")
