"""The served desk: opens runs, leases topics, answers their calls, takes what is handed in, and finishes runs."""

import asyncio
import logging
import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from time import monotonic, perf_counter
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, Field

from schemas import service
from schemas.errors import ArenaError, BadInput, UsageError
from schemas.settings import Settings
from schemas.split import Split
from schemas.submission import Entry, Submission
from tasks.paperqa.desk import PaperQaDesk
from tasks.service.batches import Batches
from tasks.service.calls import Asking, Done, TopicCall, calls_of, require_engine, search
from tasks.service.editions import Means, ServedEdition, ServedEditions
from tasks.service.ledger import OPEN, Leased, Ledger, Run, hash_token
from tasks.service.problems import Refused, is_done, too_many, unavailable
from tasks.service.record import Call, write_line
from tasks.store.store import Store
from tasks.submissions.rules import Checked, check_submission

log = logging.getLogger(__name__)

SEARCHED_AT_ONCE = 32
"""Searches that are answered at the same time."""

T = TypeVar("T")

MOST_LIBRARIES = 32
"""Questions whose desks are kept open at once; each may have a process of its own for SQL."""


class ServiceSettings(Settings):
    """What the topics of new runs may use, and how fast."""

    quotas: service.Quotas = Field(default=service.Quotas())
    most_leases: int = Field(default=1000, ge=1, description="Topics of a run that can be leased at once.")
    most_usd: float | None = Field(
        default=None, ge=0, description="What a run may spend on language models, in USD; empty: no limit."
    )
    rate: int = Field(default=1000, ge=1, description="Requests a second that one token may make.")
    split: Split = Field(default=Split(), description="Topics whose scores stay here.")


class Editing(NamedTuple):
    """What the service asks of the pipeline.

    Attributes:
        is_taken: Whether an edition has a run of that name already.
        enter: Makes datasets of a run, records them in the edition, and returns what its maker may know of the scores:
            the last fields of `RunStatus`.
    """

    is_taken: Callable[[str, str], bool]
    enter: Callable[[str, Entry], Any]


class _Search(NamedTuple):
    asking: Asking
    body: service.Search


class _Library(NamedTuple):
    desk: PaperQaDesk
    lock: Lock


class DeskService:
    """The desk, served to many clients at once. Its methods run on one event loop.

    Args:
        store: The store.
        means: What serving takes.
        settings: Quotas and limits.
        editing: What finishing a run needs.
    """

    def __init__(self, store: Store, means: Means, settings: ServiceSettings, editing: Editing) -> None:
        workers = means.resources.workers or len(os.sched_getaffinity(0))
        self.editions = ServedEditions(store, means)
        self.ledger = Ledger(store.root, settings.quotas, settings.most_leases)
        self._settings = settings
        self._editing = editing
        self._threads = ThreadPoolExecutor(2 * workers + 2, "desk")
        self.batches = Batches[_Search](_search_together, self._threads, workers)
        self._libraries: OrderedDict[str, _Library] = OrderedDict()
        self._libraries_lock = Lock()
        self._finishing = asyncio.Lock()
        self._seen: dict[str, tuple[float, float]] = {}

    def close(self) -> None:
        """Ends what runs, writes what waits, and closes everything."""
        self._threads.shutdown(cancel_futures=True)
        self.ledger.close()
        for library in self._libraries.values():
            library.desk.close()
        self.editions.close()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def list_editions(self) -> dict[str, Any]:
        """Returns the editions, in the form of `EditionList`."""
        return {"editions": await self._in_thread(lambda: list(self.editions.rows()))}

    async def open_run(self, new: service.NewRun) -> dict[str, Any]:
        """Opens a run, in the form of `OpenedRun`.

        Raises:
            Refused: There is no such edition or task, or the run's name is taken.
        """
        topics = await self._in_thread(lambda: self._prepare(new))
        token = await asyncio.wrap_future(self.ledger.open_run(new, topics))
        quotas = self._settings.quotas.model_dump()
        return {"run": new.system.run, "run_token": token, "topics": len(topics), "quotas": quotas}

    def _prepare(self, new: service.NewRun) -> list[str]:
        """Returns the names of a run's topics, and opens what their desks need."""
        edition = self.editions.find(new.edition)
        if not edition.count(new.task):
            raise Refused(422, f"task: the edition has no topics of {new.task}; see /v1/editions.", field="task")
        if self._editing.is_taken(new.edition, new.system.run):
            raise is_done(f"Give the changed system another version: a run {new.system.run} is in the edition")
        edition.prepare(new.task)
        return [asked.topic for asked in edition.asked(new.task, new.sample)]

    def require_run(self, token: str, name: str) -> Run:
        """Returns the run of a token.

        Raises:
            Refused: The token is unknown, or is not that run's.
        """
        self._require_rate(token)
        run = self.ledger.find_run(token)
        if run.name != name:
            raise unavailable()
        return run

    async def lease(self, run: Run, n: int) -> dict[str, Any]:
        """Leases topics, in the form of `LeasedTopics`."""
        leases, remaining = await asyncio.wrap_future(self.ledger.lease(run, n))
        if not leases:
            return {"topics": [], "remaining": remaining}
        told = await self._in_thread(lambda: self._tell(run, [lease.topic for lease in leases]))
        topics = [
            {
                "topic": lease.shown,
                "topic_token": lease.token,
                **told[lease.topic],
                "quotas": lease.quotas,
                "deadline": lease.deadline,
            }
            for lease in leases
        ]
        return {"topics": topics, "remaining": remaining}

    def _tell(self, run: Run, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """Returns title and instructions by topic."""
        edition = self.editions.opened(run.edition)
        asked = {found.topic: found for found in edition.asked(run.opened.task, run.opened.sample)}
        told: dict[str, dict[str, str]] = {}
        for topic in topics:
            parts = [asked[topic].instructions]
            if run.task == "paperqa":
                question = edition.question(topic)
                parts += [f"Form of the answer: {question.answer_format}"] if question.answer_format else []
                parts += [f"Papers: {', '.join(question.anchor_pdf)}"] if question.anchor_pdf else []
                parts += [f"Conferences: {', '.join(question.conference)}"] if question.conference else []
            told[topic] = {"title": asked[topic].title, "instructions": "\n".join(parts)}
        return told

    def find_topic(self, token: str) -> Leased:
        """Returns the topic of a token, also after its lease.

        Raises:
            Refused: The token is unknown, or makes too many requests.
        """
        self._require_rate(token)
        return self.ledger.find_topic(token)

    def find_payer(self, token: str) -> str:
        """Returns the run that pays for an agent's calls to language models, by the token of the run or of a topic.

        Raises:
            Refused: The token is unknown, or its run or topic takes no more calls.
        """
        self._require_rate(token)
        try:
            run = self.ledger.find_run(token)
        except Refused:
            leased = self.ledger.find_topic(token)
            leased.require_open()
            run = leased.run
        if run.state != OPEN:
            raise is_done("The run is finished")
        return f"{run.edition}/{run.name}"

    def calls(self, leased: Leased) -> tuple[TopicCall, ...]:
        """Returns the calls of a topic beside `submit`."""
        return calls_of(leased.run.opened.task)

    async def call(self, token: str, name: str, body: BaseModel) -> dict[str, Any]:
        """Answers a call of a topic.

        Raises:
            Refused: The token does not allow the call, a quota is used up, or what is asked for does not exist.
        """
        leased = self.find_topic(token)
        call = next((found for found in self.calls(leased) if found.name == name), None)
        if call is None:
            raise Refused(404, f"Topics of task {leased.run.task} have no call {name}.")
        arguments, started = body.model_dump(mode="json"), perf_counter()
        _require_text(arguments)
        searches, documents = call.searches, call.documents(body)
        try:
            leased.require_open()
            leased.require_quota(searches, documents)
            done = await self._answer(leased, token, call, body)
        except Refused as refused:
            if leased.run.state == OPEN:
                took = 1000 * (perf_counter() - started)
                row = Call(name, leased.topic, arguments, refused.status, milliseconds=took)
                await asyncio.wrap_future(self.ledger.refuse(leased, row))
            raise
        took = 1000 * (perf_counter() - started)
        row = Call(name, leased.topic, arguments, 200, done.returned, done.search, took)
        left = await asyncio.wrap_future(self.ledger.charge(token, row, searches, documents))
        return {**done.answer, "quotas_left": left}

    async def _answer(self, leased: Leased, token: str, call: TopicCall, body: BaseModel) -> Done:
        edition = self.editions.opened(leased.run.edition)
        if not edition.is_ready(leased.run.opened.task):
            await self._in_thread(lambda: edition.prepare(leased.run.opened.task))
        if call.paperqa:
            return await self._in_thread(lambda: self._ask_library(edition, leased, token, call, body))
        asking = Asking(edition, leased.topic)
        if isinstance(body, service.Search):
            require_engine(edition, body.engine)
            if self.batches.is_full:
                raise too_many(1)
            return await self.batches.ask(_Search(asking, body))
        return await self._in_thread(lambda: call.run(asking, body))

    def _ask_library(
        self, edition: ServedEdition, leased: Leased, token: str, call: TopicCall, body: BaseModel
    ) -> Done:
        library = self._open_library(edition, leased, hash_token(token))
        with library.lock:
            return call.run(Asking(edition, leased.topic, library.desk), body)

    def _open_library(self, edition: ServedEdition, leased: Leased, key: str) -> _Library:
        with self._libraries_lock:
            found = self._libraries.get(key)
            if found is None:
                desk = PaperQaDesk(edition.question(leased.topic), edition.library)
                found = self._libraries[key] = _Library(desk, Lock())
            self._libraries.move_to_end(key)
            closing = [self._libraries.popitem(last=False)[1] for _ in range(len(self._libraries) - MOST_LIBRARIES)]
        for library in closing:
            with library.lock:
                library.desk.close()
        return found

    async def submit(self, token: str, submission: Submission) -> dict[str, Any]:
        """Takes what is handed in for a topic, in the form of `SubmitAnswer`.

        Raises:
            Refused: The topic was handed in before, its lease has ended, or a field cannot be used.
        """
        leased = self.find_topic(token)
        leased.require_open()
        arguments = submission.model_dump(mode="json", exclude_unset=True)
        _require_text(arguments)
        try:
            checked = await self._in_thread(lambda: self._check(leased, submission))
        except BadInput as error:
            raise Refused(422, str(error), field=str(error).partition(":")[0]) from error
        row = Call("submit", leased.topic, arguments)
        await asyncio.wrap_future(self.ledger.submit(token, row, checked.outcome))
        with self._libraries_lock:
            library = self._libraries.pop(hash_token(token), None)
        if library:
            await self._in_thread(library.desk.close)
        return checked.receipt()

    def _check(self, leased: Leased, submission: Submission) -> Checked:
        task = leased.run.opened.task
        if task == "paperqa":
            return check_submission(task, submission)
        edition = self.editions.opened(leased.run.edition)
        edition.prepare(task)
        return check_submission(task, submission, edition.allowed(leased.topic), self.ledger.returned(leased))

    def status(self, run: Run) -> dict[str, Any]:
        """Returns how far a run is, in the form of `RunStatus`."""
        return self.ledger.status(run)

    async def finish(self, run: Run) -> dict[str, Any]:
        """Ends a run: what was handed in becomes datasets of the edition, and is scored. Returns as `status` does.

        Raises:
            Refused: The run is finished already.
        """
        async with self._finishing:
            entry = await asyncio.wrap_future(self.ledger.close_run(run))
            scores = await self._in_thread(lambda: self._enter(run, entry))
            await asyncio.wrap_future(self.ledger.finish_run(run, scores))
        return self.status(run)

    def _enter(self, run: Run, entry: Entry) -> Any:
        try:
            return self._editing.enter(run.edition, entry)
        except UsageError as error:
            log.warning("run %s: %s", run.name, error)
            raise is_done(f"Another run {run.name} entered the edition") from error

    def _require_rate(self, token: str) -> None:
        """Refuses a token that makes too many requests: a bucket of a second's requests that refills steadily."""
        key, now, rate = hash_token(token), monotonic(), self._settings.rate
        if len(self._seen) > 100_000:
            self._seen.clear()
        left, then = self._seen.get(key, (float(rate), now))
        left = min(float(rate), left + (now - then) * rate)
        if left < 1:
            raise too_many(1)
        self._seen[key] = (left - 1, now)


_SEARCHERS = ThreadPoolExecutor(SEARCHED_AT_ONCE, "search")


def _require_text(arguments: Any) -> None:
    """Refuses what cannot be written as UTF-8 JSON, such as half of a surrogate pair."""
    try:
        write_line(arguments)
    except (ValueError, RecursionError) as error:
        raise Refused(422, "body: holds a text or number that UTF-8 JSON cannot.", field="body") from error


def _search_together(searches: Sequence[_Search]) -> list[Done | ArenaError]:
    """Answers searches of any topics and editions in threads, whose searches by embeddings share passes."""
    if len(searches) == 1:
        return [_search_one(searches[0])]
    return list(_SEARCHERS.map(_search_one, searches))


def _search_one(found: _Search) -> Done | ArenaError:
    try:
        return search(found.asking, found.body)
    except ArenaError as error:
        return error
