"""Answering every subject of a stage (topic, query, question): shards, threads, model calls, outcomes, counts."""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any, Generic, Literal, NamedTuple, TypeVar, cast

from schemas.errors import ArenaError, OverBudget, StageFailed
from schemas.llm import ModelName
from schemas.manifest import Counts
from schemas.settings import Settings
from schemas.table import AnyTable
from schemas.tables.model_calls import MODEL_CALLS
from tasks.llm.asker import Asker, SubjectPool, open_door
from tasks.llm.blocking import BlockingDoor
from tasks.llm.earlier_answers import settled_answers
from tasks.llm.journal import Journal, Row, SubjectRows, rows_of
from tasks.store.parquet import write_rows
from tasks.store.shard import Shard, in_shards
from tasks.store.workspace import Workspace

log = logging.getLogger(__name__)

NOTE_LENGTH = 500
"""Characters of an error's message that a note keeps."""

KEPT = ("scored", "answered")
"""Outcomes that count as kept; `failed` counts as failed, any other as dropped for that reason."""

SettingsT = TypeVar("SettingsT", bound=Settings)
SubjectT = TypeVar("SubjectT")
ResultT = TypeVar("ResultT")


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
        shard_size: Subjects of a shard. Without a model, a killed stage answers a shard again at most.
        name: Id of a subject, under which its model calls are recorded.
        tables: The tables to write, by the prefix of their files.
        open: Opens what answering takes, and gives the function that answers one subject.
        model: Which model is asked; None: none. With a model, table `model_calls` is written too.
        optional: Prefixes of the tables that a shard without rows of them does not write.
        least_shards: 1: without subjects, one shard of empty tables is written.
        finish_shard: Gets the answers of a shard before they are written; returns further rows, or raises to refuse
            the shard.
        in_workers: Shards are answered in worker processes, each of which calls `open` for every shard. All attributes
            must be picklable, and `model` None.
        at_once: Subjects answered at once, in threads, where no model is asked.
        key: Columns of the tables whose values, joined by blanks, are the name of a subject that asks a model.
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
    at_once: int = 1
    key: Sequence[str] = ()

    @property
    def written(self) -> dict[str, AnyTable]:
        """All tables that are written, by the prefix of their files."""
        return {**self.tables, **({"calls": MODEL_CALLS} if self.model else {})}


def answer_subjects(work: Workspace[SettingsT], subjects: Subjects[SubjectT]) -> None:
    """Answers all subjects and writes their rows, shard by shard; finished shards are skipped.

    Without a model, `at_once` subjects of any shards are answered at once in threads. With a model, subjects of all
    shards are answered at once in threads, as many as the endpoint's concurrency allows. Each of these answers is kept
    at once: a killed stage goes on at the subject. An answer with a call that failed at the endpoint is not kept: it is
    written if the stage ends within its share of failed calls, else asked for again.

    Raises:
        UsageError: A model is named, and no endpoint is set up, or another one.
        ArenaError: More calls failed than the settings of the endpoint allow.
    """
    shards = in_shards(subjects.items, subjects.shard_size, least=subjects.least_shards)
    if subjects.in_workers:
        work.map_shards(_answer_in_worker, {name: replace(subjects, items=items) for name, items in shards.items()})
        return
    if work.finished() >= set(shards):
        return
    if subjects.model:
        _answer_at_once(work, subjects, shards, subjects.model)
        return
    _answer_here(work, subjects, shards)


def _answer_here(
    work: Workspace[SettingsT], subjects: Subjects[SubjectT], shards: Mapping[str, Sequence[SubjectT]]
) -> None:
    """Answers without a model: in threads where several subjects are answered at once, otherwise in this one."""
    finished = work.finished()
    with subjects.open() as answer, ThreadPoolExecutor(subjects.at_once) as pool:
        calls = {
            name: [partial(answer, item, None) for item in items]
            for name, items in shards.items()
            if name not in finished
        }
        if subjects.at_once > 1:
            calls = {name: [pool.submit(call).result for call in of_shard] for name, of_shard in calls.items()}
        try:
            for shard in work.pending(list(shards)):
                with shard:
                    _write(shard, subjects, [_with_valid_rows(call()) for call in calls.pop(shard.name)])
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _answer_at_once(
    work: Workspace[SettingsT], subjects: Subjects[SubjectT], shards: Mapping[str, Sequence[SubjectT]], model: ModelName
) -> None:
    held: dict[str, list[SubjectRows]] = {}
    with (
        open_door(work.llm, model) as door,
        subjects.open() as answer,
        Journal(work.scratch / "answered.jsonl", list(subjects.written.values())) as journal,
        SubjectPool(_Answering(answer, partial(Asker, door, work.stage, model), door, journal), work.llm) as pool,
    ):
        asked: dict[str, list[Future[SubjectRows]]] = {}
        for subject in _asked(work, subjects, shards):
            asked.setdefault(subject.shard, []).append(pool.submit(subject))
        for shard in work.pending(list(shards)):
            answers = [future.result() for future in asked.pop(shard.name, [])]
            if all(answered.settled for answered in answers):
                with shard:
                    _write(shard, subjects, answers)
            else:
                held[shard.name] = answers
        door.require_healthy()
    for shard in work.pending(list(held)):
        with shard:
            _write(shard, subjects, held[shard.name])


class _Asked(NamedTuple):
    """A subject, its shard, its place among all subjects, its name, and the answer it had in the replaced dataset."""

    shard: str
    place: int
    name: str
    subject: Any
    before: SubjectRows | None


def _asked(
    work: Workspace[SettingsT], subjects: Subjects[SubjectT], shards: Mapping[str, Sequence[SubjectT]]
) -> Iterator[_Asked]:
    """Yields the subjects of unfinished shards in order."""
    finished, earlier, places = work.finished(), _earlier_answers(work, subjects), count()
    for shard, items in shards.items():
        for item, place in zip(items, places, strict=False):
            name = subjects.name(item)
            before = earlier.get(name)
            kept = before.pop(0) if before else None
            if shard not in finished:
                yield _Asked(shard, place, name, item, kept)


def _earlier_answers(work: Workspace[SettingsT], subjects: Subjects[Any]) -> dict[str, list[SubjectRows]]:
    """Returns the answers of the dataset that is made again which are kept; none when all are asked again."""
    replaced = [dataset for dataset in work.earlier if dataset.folder.name == work.folder.name]
    return settled_answers(replaced[0], subjects.written, subjects.key, work.again) if work.again and replaced else {}


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


class _Answering(NamedTuple):
    """Answers one subject with an asker of its own, or reads the answer that was kept."""

    answer: Answerer[Any]
    open_asker: Callable[[str], Asker]
    door: BlockingDoor
    journal: Journal

    def __call__(self, asked: _Asked) -> SubjectRows:
        if found := asked.before or self.journal.find(asked.place, asked.name):
            return found
        asker = self.open_asker(asked.name)
        try:
            answered = self.answer(asked.subject, asker)
        except Exception as error:  # the subjects in flight ask no more either
            self.door.stop(error if isinstance(error, ArenaError) else StageFailed(f"subject {asked.name}: {error}"))
            raise
        answered = answered._replace(rows=[*answered.rows, *asker.calls], settled=asker.settled)
        answered = _with_valid_rows(answered)
        if answered.settled:
            self.journal.keep(asked.place, asked.name, answered)
        return answered


def _answer_in_worker(shard: Shard, subjects: Subjects[Any]) -> None:
    with subjects.open() as answer:
        _write(shard, subjects, [_with_valid_rows(answer(subject, None)) for subject in subjects.items])


def _write(shard: Shard, subjects: Subjects[Any], answers: Sequence[SubjectRows]) -> None:
    rows = [row for answer in answers for row in answer.rows] + list(subjects.finish_shard(answers))
    for prefix, table in subjects.written.items():
        found = rows_of(table, rows)
        if found or prefix not in subjects.optional:
            write_rows(shard.file(f"{prefix}-{shard.name}.parquet"), table, found)
    for answer in answers:
        shard.counts.add(_count(answer))


def _count(answer: SubjectRows) -> Counts:
    counts = Counts(read=1, notes=dict(answer.notes))
    if answer.outcome in KEPT:
        counts.kept = 1
    elif answer.outcome == "failed":
        counts.failed = 1
    else:
        counts.dropped[answer.outcome] = 1
    return counts


def _with_valid_rows(answered: SubjectRows) -> SubjectRows:
    return answered._replace(rows=[_with_valid_text(row) for row in answered.rows])


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
