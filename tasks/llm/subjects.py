"""Answering every subject of a stage (topic, query, question): shards, threads, model calls, outcomes, counts."""

import hashlib
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeVar, cast

import orjson

from schemas.errors import ArenaError, OverBudget
from schemas.llm import ModelName
from schemas.manifest import Counts
from schemas.settings import Settings
from schemas.table import AnyTable
from schemas.tables.model_calls import MODEL_CALLS
from tasks.llm.asker import Asker, in_threads, open_door
from tasks.llm.blocking import BlockingDoor
from tasks.store.parquet import write_rows
from tasks.store.shard import Shard, in_shards, write_whole
from tasks.store.workspace import Workspace

log = logging.getLogger(__name__)

NOTE_LENGTH = 500
"""Characters of an error's message that a note keeps."""

KEPT = ("scored", "answered")
"""Outcomes that count as kept; `failed` counts as failed, any other as dropped for that reason."""

Row = tuple[Any, ...]
"""A row object of a declared table."""

SettingsT = TypeVar("SettingsT", bound=Settings)
SubjectT = TypeVar("SubjectT")
ResultT = TypeVar("ResultT")


class SubjectRows(NamedTuple):
    """What a stage writes and counts for one subject.

    Attributes:
        rows: Row objects; each goes to the table that declares its class.
        outcome: How the subject ended.
        notes: Further counts.
    """

    rows: Sequence[Row]
    outcome: str
    notes: Mapping[str, float] = {}


Answerer = Callable[[SubjectT, Asker | None], SubjectRows]
"""Answers one subject. Gets an asker when a model is named; several threads call it at once then."""


class Failure(NamedTuple):
    """How an attempt ended that raised an exception."""

    outcome: Literal["over_budget", "failed"]
    note: str


def _no_rows(answers: Sequence[SubjectRows]) -> Sequence[Row]:
    return ()


@dataclass(frozen=True)
class Subjects(Generic[SubjectT]):
    """The subjects of a stage, and how one of them is answered.

    Attributes:
        items: All subjects, in the order of their rows.
        shard_size: Subjects of a shard: what a killed stage answers again at most.
        name: Id of a subject, under which its model calls are recorded; unique with `keep_each`.
        tables: The tables to write, by the prefix of their files.
        open: Opens what answering takes, and gives the function that answers one subject.
        model: Which model is asked; None: none. With a model, table `model_calls` is written too.
        optional: Prefixes of the tables that a shard without rows of them does not write.
        least_shards: 1: without subjects, one shard of empty tables is written.
        finish_shard: Gets the answers of a shard before they are written; returns further rows, or raises to refuse
            the shard.
        in_workers: Shards are answered in worker processes, each of which calls `open` for every shard. All attributes
            must be picklable, and `model` None.
        keep_each: Each answered subject is kept at once, so that a killed stage goes on at the subject, not the shard.
    """

    items: Sequence[SubjectT]
    shard_size: int
    name: Callable[[SubjectT], str]
    tables: Mapping[str, AnyTable]
    open: Callable[[], AbstractContextManager[Answerer[SubjectT]]]
    model: ModelName | None = None
    optional: Collection[str] = ()
    least_shards: int = 1
    finish_shard: Callable[[Sequence[SubjectRows]], Sequence[Row]] = _no_rows
    in_workers: bool = False
    keep_each: bool = False

    @property
    def written(self) -> dict[str, AnyTable]:
        """All tables that are written, by the prefix of their files."""
        return {**self.tables, **({"calls": MODEL_CALLS} if self.model else {})}


def answer_subjects(work: Workspace[SettingsT], subjects: Subjects[SubjectT]) -> None:
    """Answers all subjects and writes their rows, shard by shard; finished shards are skipped.

    With a model, the subjects of a shard are answered in threads, as many as the endpoint's concurrency allows.

    Raises:
        UsageError: A model is named, and no endpoint is set up, or another one.
    """
    shards = in_shards(subjects.items, subjects.shard_size, least=subjects.least_shards)
    if subjects.in_workers:
        work.map_shards(_answer_in_worker, {name: replace(subjects, items=items) for name, items in shards.items()})
        return
    if work.finished() >= set(shards):
        return
    model = subjects.model
    with open_door(work.llm, model) if model else nullcontext() as door, subjects.open() as answer:
        folder = work.scratch / "answered" if subjects.keep_each else None
        answering = _Answering(subjects, answer, work.stage, door, folder)
        for shard in work.pending(list(shards)):
            with shard:
                _write(shard, subjects, in_threads(answering, shards[shard.name], work.llm if door else None))


def attempt(subject: str, work: Callable[[], ResultT], *, reraise: tuple[type[Exception], ...]) -> ResultT | Failure:
    """Calls a plug-in; an exception that it raises is an outcome of this subject alone.

    Args:
        subject: Begins the line in the log, for example `topic 7`.
        work: Calls the plug-in.
        reraise: Errors that concern all subjects; they are raised unchanged.
    """
    try:
        return work()
    except OverBudget as error:
        return Failure("over_budget", str(error)[:NOTE_LENGTH])
    except reraise:
        raise
    except Exception as error:
        log.warning("%s failed: %s", subject, error, exc_info=not isinstance(error, ArenaError))
        return Failure("failed", f"{type(error).__name__}: {error}"[:NOTE_LENGTH])


@dataclass(frozen=True)
class _Answering(Generic[SubjectT]):
    """Answers one subject with an asker of its own, or reads the answer that was kept."""

    subjects: Subjects[SubjectT]
    answer: Answerer[SubjectT]
    stage: str = ""
    door: BlockingDoor | None = None
    folder: Path | None = None

    def __call__(self, subject: SubjectT) -> SubjectRows:
        name = self.subjects.name(subject)
        if self.folder is None:
            return self._ask(subject, name)
        file = self.folder / f"{hashlib.sha256(name.encode()).hexdigest()}.json"
        if file.is_file():
            return self._load(file)
        answered = self._ask(subject, name)
        self._keep(file, answered)
        return answered

    def _ask(self, subject: SubjectT, name: str) -> SubjectRows:
        model = self.subjects.model
        asker = Asker(self.door, self.stage, model, name) if self.door and model else None
        answered = self.answer(subject, asker)
        rows = [*answered.rows, *(asker.calls if asker else ())]
        return answered._replace(rows=[_with_valid_text(row) for row in rows])

    def _keep(self, file: Path, answered: SubjectRows) -> None:
        by_table = {table.name: _rows_of(table, answered.rows) for table in self.subjects.written.values()}
        file.parent.mkdir(exist_ok=True)
        write_whole(file, orjson.dumps((by_table, answered.outcome, answered.notes), default=tuple))

    def _load(self, file: Path) -> SubjectRows:
        by_table, outcome, notes = orjson.loads(file.read_bytes())
        tables = self.subjects.written.values()
        return SubjectRows([table.row(*row) for table in tables for row in by_table[table.name]], outcome, notes)


def _answer_in_worker(shard: Shard, subjects: Subjects[Any]) -> None:
    with subjects.open() as answer:
        _write(shard, subjects, [_Answering(subjects, answer)(subject) for subject in subjects.items])


def _write(shard: Shard, subjects: Subjects[Any], answers: Sequence[SubjectRows]) -> None:
    rows = [row for answer in answers for row in answer.rows] + list(subjects.finish_shard(answers))
    for prefix, table in subjects.written.items():
        found = _rows_of(table, rows)
        if found or prefix not in subjects.optional:
            write_rows(shard.file(f"{prefix}-{shard.name}.parquet"), table, found)
    for answer in answers:
        shard.counts.add(_count(answer))


def _rows_of(table: AnyTable, rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if type(row) is table.row]


def _count(answer: SubjectRows) -> Counts:
    counts = Counts(read=1, notes=dict(answer.notes))
    if answer.outcome in KEPT:
        counts.kept = 1
    elif answer.outcome == "failed":
        counts.failed = 1
    else:
        counts.dropped[answer.outcome] = 1
    return counts


def _with_valid_text(row: Row) -> Row:
    """The row with text that every table can hold: half of a surrogate pair becomes a question mark."""
    return cast("Any", type(row))(*map(_valid, row))


def _valid(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case list():
            return [_valid(item) for item in cast("list[Any]", value)]
        case _:
            return value
