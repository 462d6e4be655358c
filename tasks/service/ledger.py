"""Runs, leased topics and quotas: every change is a row of the record, and is answered when it is on disk."""

import hashlib
import json
import secrets
from collections.abc import Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from pathlib import Path
from time import time
from typing import Any, NamedTuple

from schemas.service import NewRun, Quotas
from schemas.submission import Entry, Handed, Recorded, Submission
from schemas.tables.runs import SearchRow
from tasks.llm.database import Database
from tasks.retrieval.trajectory import Trajectory
from tasks.service.problems import Refused, is_done, is_over, over_quota, unauthorized
from tasks.service.record import FIRST, Call, append, open_record, read_calls, require_whole, write_line
from tasks.service.writer import Writer

OPEN, CLOSED, FINISHED = "open", "closed", "finished"
"""States of a run: closed is between the request to finish it and its scores."""

_AVAILABLE = "run = ? AND submitted IS NULL AND deadline <= ?"
_LEASED = "run = ? AND submitted IS NULL AND deadline > ?"


class Run(NamedTuple):
    """A run as its token names it."""

    id: int
    edition: str
    name: str
    task: str
    state: str
    opened: NewRun
    quotas: Quotas
    scores: Any


class Leased(NamedTuple):
    """A leased topic as its token names it; `searches` and `documents` are used up so far."""

    run: Run
    place: int
    topic: str
    attempt: int
    current: int
    deadline: float
    searches: int
    documents: int
    submitted: int | None

    def require_open(self) -> None:
        """Checks that calls can be made.

        Raises:
            Refused: The topic was handed in, or the lease has ended.
        """
        if self.submitted is not None:
            raise is_done("The topic was handed in")
        if self.run.state != OPEN or self.attempt != self.current or self.deadline <= time():
            raise is_over()

    def quotas_left(self, searches: int = 0, documents: int = 0) -> dict[str, int]:
        """Returns what is left of the quotas when a call uses so much."""
        quotas = self.run.quotas
        return {
            "searches": quotas.searches - self.searches - searches,
            "documents": quotas.documents - self.documents - documents,
            "seconds": max(0, int(self.deadline - time())),
        }

    def require_quota(self, searches: int, documents: int) -> dict[str, int]:
        """Returns what is left of the quotas after a call.

        Raises:
            Refused: A quota does not allow the call.
        """
        left = self.quotas_left(searches, documents)
        for name, used in (("searches", searches), ("documents", documents)):
            if used and left[name] < 0:
                raise over_quota(name)
        return left


class NewLease(NamedTuple):
    """A topic that was leased: its name for the client, its own name, its token, its deadline, and quotas left."""

    shown: str
    topic: str
    token: str
    deadline: datetime
    quotas: dict[str, int]


class Ledger:
    """The runs of a store. Reads are for one thread; writes are handed to a thread of their own.

    Args:
        root: Folder of the store.
        quotas: What a topic of a new run may use.
        most_leases: Topics of a run that can be leased at once.
    """

    def __init__(self, root: Path, quotas: Quotas, most_leases: int = 1000) -> None:
        self.quotas = quotas
        self._most_leases = most_leases
        self._reader = open_record(root)
        self._writer = Writer(open_record(root))
        self.write = self._writer.write

    def close(self) -> None:
        """Makes the writes that wait, and closes the record."""
        self._writer.close()
        self._reader.close()

    def find_run(self, token: str) -> Run:
        """Returns the run of a token.

        Raises:
            Refused: There is none.
        """
        return _find_run(self._reader, "token = ?", hash_token(token))

    def find_topic(self, token: str) -> Leased:
        """Returns the leased topic of a token, also after its lease.

        Raises:
            Refused: There is none.
        """
        return _find_topic(self._reader, hash_token(token))

    def open_run(self, new: NewRun, topics: Sequence[str]) -> "Future[str]":
        """Opens a run over topics, in random order of their shown names; the result is its token."""
        return self.write(lambda db: _open_run(db, new, topics, self.quotas))

    def lease(self, run: Run, n: int) -> "Future[tuple[list[NewLease], int]]":
        """Leases up to `n` topics; the result also says how many are left."""
        return self.write(lambda db: _lease(db, run.id, n, self._most_leases))

    def charge(self, token: str, call: Call, searches: int = 0, documents: int = 0) -> "Future[dict[str, int]]":
        """Records an answered call and takes it off the quotas; the result is what is left of them."""
        return self.write(lambda db: _charge(db, hash_token(token), call, searches, documents))

    def refuse(self, leased: Leased, call: Call) -> "Future[int]":
        """Records a call that was refused."""
        return self.write(lambda db: append(db, leased.run.id, call, _now()))

    def submit(self, token: str, call: Call, outcome: str) -> "Future[None]":
        """Records what was handed in for a topic, which ends its lease."""
        return self.write(lambda db: _submit(db, hash_token(token), call, outcome))

    def close_run(self, run: Run) -> "Future[Entry]":
        """Ends all leases of a run; the result is what was handed in. It can be repeated until `finish_run`."""
        return self.write(lambda db: _close_run(db, run.id))

    def finish_run(self, run: Run, scores: Any) -> "Future[None]":
        """Keeps what a run's maker may know of its scores (the last fields of `RunStatus`), and ends the run."""
        return self.write(lambda db: _finish_run(db, run.id, scores))

    def returned(self, leased: Leased) -> set[Any]:
        """Returns every document that the desk returned to a topic of a run."""
        return {found for row in read_calls(self._reader, leased.run.id, leased.topic) for found in row["returned"]}

    def status(self, run: Run) -> dict[str, Any]:
        """Returns how far a run is, in the form of `schemas.service.RunStatus`."""
        return _status(self._reader, _find_run(self._reader, "id = ?", run.id))


def hash_token(token: str) -> str:
    """Returns what is kept of a token."""
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


def _new_token() -> str:
    return secrets.token_urlsafe(32)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _find_run(db: Database, where: str, value: str | int) -> Run:
    query = f"SELECT id, edition, name, task, state, opened, scores FROM runs WHERE {where}"
    row = db.execute(query, (value,)).fetchone()
    if row is None:
        raise unauthorized()
    *head, opened, scores = row
    given = json.loads(opened)
    run, edition, name, task, state = head
    return Run(
        run,
        edition,
        name,
        task,
        state,
        NewRun.model_validate(given["run"]),
        Quotas.model_validate(given["quotas"]),
        json.loads(scores),
    )


_TOPIC = """
    SELECT t.run, t.place, t.topic, k.attempt, t.attempt, t.deadline, t.searches, t.documents, t.submitted
    FROM tokens k JOIN topics t ON t.run = k.run AND t.place = k.place WHERE k.hash = ?
"""


def _find_topic(db: Database, token: str) -> Leased:
    row = db.execute(_TOPIC, (token,)).fetchone()
    if row is None:
        raise unauthorized()
    return Leased(_find_run(db, "id = ?", row[0]), *row[1:])


def _open_run(db: Database, new: NewRun, topics: Sequence[str], quotas: Quotas) -> str:
    name, token = new.system.run, _new_token()
    if db.execute("SELECT 1 FROM runs WHERE edition = ? AND name = ?", (new.edition, name)).fetchone():
        raise is_done(f"Give the changed system another version: a run {name} was opened")
    opened = write_line({"run": new.model_dump(), "quotas": quotas.model_dump()}).decode()
    values = (new.edition, name, new.task, hash_token(token), opened, OPEN, "null", 0, FIRST)
    columns = "edition, name, task, token, opened, state, scores, sequence, head"
    run = db.execute(f"INSERT INTO runs ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values).lastrowid or 0
    for place, topic in enumerate(topics):
        shown = secrets.token_hex(8)
        db.execute("INSERT INTO topics VALUES (?, ?, ?, ?, 0, 0, 0, 0, NULL, NULL)", (run, place, topic, shown))
    append(db, run, Call("open", None, json.loads(opened)), _now())
    return token


def _lease(db: Database, run_id: int, n: int, most: int) -> tuple[list[NewLease], int]:
    run, now = _find_run(db, "id = ?", run_id), time()
    if run.state != OPEN:
        raise is_done("The run is finished")
    columns = "place, topic, shown, attempt, searches, documents"
    query = f"SELECT {columns} FROM topics WHERE {_AVAILABLE} ORDER BY attempt, place"
    available = db.execute(query, (run_id, now)).fetchall()
    (leased,) = db.execute(f"SELECT count(*) FROM topics WHERE {_LEASED}", (run_id, now)).fetchone()
    if available and leased >= most:
        raise Refused(429, f"The run has {leased} leased topics, as many as it may; hand some in.", quota="leases")
    found: list[NewLease] = []
    for place, topic, shown, attempt, searches, documents in available[: min(n, most - leased)]:
        token, deadline = _new_token(), now + run.quotas.seconds
        db.execute(
            "UPDATE topics SET attempt = ?, deadline = ? WHERE run = ? AND place = ?",
            (attempt + 1, deadline, run_id, place),
        )
        db.execute("INSERT INTO tokens VALUES (?, ?, ?, ?)", (hash_token(token), run_id, place, attempt + 1))
        left = {
            "searches": run.quotas.searches - searches,
            "documents": run.quotas.documents - documents,
            "seconds": run.quotas.seconds,
        }
        ends = datetime.fromtimestamp(deadline, UTC)
        append(db, run_id, Call("lease", topic, {"attempt": attempt + 1}), _now(), left)
        found.append(NewLease(shown, topic, token, ends, left))
    return found, len(available) - len(found)


def _charge(db: Database, token: str, call: Call, searches: int, documents: int) -> dict[str, int]:
    leased = _find_topic(db, token)
    leased.require_open()
    left = leased.require_quota(searches, documents)
    db.execute(
        "UPDATE topics SET searches = searches + ?, documents = documents + ? WHERE run = ? AND place = ?",
        (searches, documents, leased.run.id, leased.place),
    )
    append(db, leased.run.id, call, _now(), left)
    return left


def _submit(db: Database, token: str, call: Call, outcome: str) -> None:
    leased = _find_topic(db, token)
    leased.require_open()
    sequence = append(db, leased.run.id, call, _now())
    db.execute(
        "UPDATE topics SET submitted = ?, outcome = ? WHERE run = ? AND place = ?",
        (sequence, outcome, leased.run.id, leased.place),
    )


def _close_run(db: Database, run_id: int) -> Entry:
    run = _find_run(db, "id = ?", run_id)
    if run.state == FINISHED:
        raise is_done("The run is finished")
    require_whole(db, run_id)
    if run.state == OPEN:
        append(db, run_id, Call("close", None, {}), _now())
        db.execute("UPDATE runs SET state = ? WHERE id = ?", (CLOSED, run_id))
    return _entry(db, run)


def _entry(db: Database, run: Run) -> Entry:
    """Returns what was handed in for the topics of a run, with what the desk returned to each."""
    returned: dict[str, set[int]] = {}
    searches: dict[str, list[SearchRow]] = {}
    trajectories: dict[str, Trajectory] = {}
    submitted: dict[str, Submission] = {}
    for row in read_calls(db, run.id):
        topic = row["topic"]
        returned.setdefault(topic, set()).update(found for found in row["returned"] if isinstance(found, int))
        rows = searches.setdefault(topic, [])
        if row["search"]:
            trajectories.setdefault(topic, Trajectory(int(topic))).add(row["returned"], len(rows))
            rows.append(SearchRow(**row["search"])._replace(position=len(rows)))
        if row["call"] == "documents" and row["status"] == 200:
            trajectories.setdefault(topic, Trajectory(int(topic))).add(row["returned"])
        if row["call"] == "submit" and row["status"] == 200:
            submitted[topic] = Submission.model_validate(row["arguments"])
    topics = {
        topic: Handed(
            submission,
            tuple(sorted(returned[topic])),
            tuple(searches[topic]),
            tuple(trajectories[topic].steps) if topic in trajectories else (),
        )
        for topic, submission in submitted.items()
    }
    rows, head = db.execute("SELECT sequence, head FROM runs WHERE id = ?", (run.id,)).fetchone()
    return Entry(run.opened.system, run.opened.task, topics, run.opened.sample, Recorded(rows, head))


def _finish_run(db: Database, run_id: int, scores: Any) -> None:
    if _find_run(db, "id = ?", run_id).state == FINISHED:
        return
    kept = write_line(scores).decode()
    append(db, run_id, Call("finish", None, {}), _now())
    db.execute("UPDATE runs SET state = ?, scores = ? WHERE id = ?", (FINISHED, kept, run_id))


def _status(db: Database, run: Run) -> dict[str, Any]:
    def count(where: str, *values: float) -> int:
        return db.execute(f"SELECT count(*) FROM topics WHERE {where}", (*values,)).fetchone()[0]

    now, is_open = time(), run.state == OPEN
    total, submitted = count("run = ?", run.id), count("run = ? AND submitted IS NOT NULL", run.id)
    query = "SELECT outcome, count(*) FROM topics WHERE run = ? AND submitted IS NOT NULL GROUP BY outcome"
    outcomes: dict[str, int] = dict(db.execute(query, (run.id,)).fetchall())
    if run.state == FINISHED and total > submitted:
        outcomes["empty"] = outcomes.get("empty", 0) + total - submitted
    topics = {
        "total": total,
        "leased": count(_LEASED, run.id, now) if is_open else 0,
        "submitted": submitted,
        "expired": count(f"{_AVAILABLE} AND attempt > 0", run.id, now if is_open else 1e12),
    }
    found = {"state": "finished" if run.state == FINISHED else "open", "topics": topics, "outcomes": outcomes}
    known: dict[str, Any] = run.scores or {}
    return {**found, **known} if "private_topics" in known else found
