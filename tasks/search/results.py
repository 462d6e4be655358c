"""The `search_results` stage: an engine answers every query of the test sets."""

import math
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from schemas.errors import MissingDependency, StageFailed, TransientError, UsageError
from schemas.identifiers import Outcome
from schemas.search import EngineSettings, Found, SearchQuery, document_key
from schemas.settings import RetrieverName
from schemas.tables.search_results import (
    SEARCH_OUTCOMES,
    SEARCH_RESULTS,
    WEB_REPLIES,
    SearchOutcomeRow,
    SearchResultRow,
    WebReplyRow,
)
from tasks.llm.asker import Asker
from tasks.llm.journal import SubjectRows
from tasks.llm.subjects import Answerer, Subjects, answer_subjects, attempt
from tasks.retrieval.backend import open_backend
from tasks.search.engine import Engine, EngineKit, RecordedEngine, RegisteredEngine, Shelf, WebAccess, find_engine
from tasks.search.queries import read_queries
from tasks.search.web_engine import WebClient
from tasks.store.dataset import Dataset
from tasks.store.stage import Stage, require_version, stage
from tasks.store.workspace import Workspace

SHARD_QUERIES = 25

OUTAGE = 3
"""A service that is out of reach for so many queries, the first ones, is down."""

NO_ACCESS = WebAccess()


class Answer(NamedTuple):
    """What an engine returned for a query, and how it ended."""

    found: list[Found]
    outcome: Outcome
    note: str | None = None


@stage("search_results", version=1, settings=EngineSettings, after="search_queries")
def search_results(work: Workspace[EngineSettings]) -> None:
    """Writes SEARCH_RESULTS and, as side tables, SEARCH_OUTCOMES and, for services on the web, WEB_REPLIES.

    Inputs: `queries`; `documents`, `surveys` and indexes for engines of an edition; `recorded` for engine `file`.

    A query on which the engine fails is an outcome; the other queries go on. Replies in an earlier dataset of the same
    engine and snapshot are reused.

    Raises:
        TransientError: Every query of a shard failed because a service was busy or out of reach: it is down.
        StageFailed: Every query of a shard failed for other reasons, or the registered engine has another version than
            the settings say.
    """
    _search(work, NO_ACCESS)


def with_web(access: WebAccess) -> Stage[EngineSettings]:
    """Returns the stage with addresses and keys for web services; they are no part of its key and are not stored."""
    return replace(search_results, function=lambda work: _search(work, access))


def _search(work: Workspace[EngineSettings], access: WebAccess) -> None:
    settings = work.settings
    registered = find_engine(settings.engine)
    require_version(f"stage search_results: engine {registered.name}", registered.version, settings.engine_version)
    queries = read_queries(work.dataset("queries"), settings.limit_queries)
    session = _Session(work, access, registered)
    subjects = Subjects(
        items=queries,
        shard_size=SHARD_QUERIES,
        name=lambda query: query.query_key,
        tables={"part": SEARCH_RESULTS, "outcomes": SEARCH_OUTCOMES}
        | ({"replies": WEB_REPLIES} if registered.live else {}),
        open=partial(session.open, queries),
        finish_shard=session.finish_shard,
    )
    answer_subjects(work, subjects)


class _Session:
    """One engine of a run of the stage, with what it is opened with: indexes, recorded results, web clients."""

    def __init__(self, work: Workspace[EngineSettings], access: WebAccess, registered: RegisteredEngine) -> None:
        self._work = work
        self._access = access
        self._registered = registered
        self._clients: list[WebClient] = []
        self._first: list[SubjectRows] = []
        self._works = False

    @contextmanager
    def open(self, queries: Sequence[SearchQuery]) -> Generator[Answerer[SearchQuery]]:
        """Opens the engine, and closes its web clients at the end."""
        try:
            engine = self._registered.open(self._kit(tuple(query.query_key for query in queries)))
            yield partial(self._answer, engine)
        finally:
            for client in self._clients:
                client.close()

    def _answer(self, engine: Engine | RecordedEngine, query: SearchQuery, asker: Asker | None) -> SubjectRows:
        answer = _answer(engine, self._work.settings, query, asker)
        self._works = self._works or not _is_out_of_reach(answer)
        if not self._works:
            self._first.append(answer)
            if len(self._first) == OUTAGE:
                _require_some(self._first, self._work.settings.tag)
        return answer

    def finish_shard(self, answers: Sequence[SubjectRows]) -> list[WebReplyRow]:
        """The replies that came since the last shard; refuses a shard in which every query failed."""
        _require_some(answers, self._work.settings.tag)
        replies = {reply.key: reply for client in self._clients for reply in client.replies}
        for client in self._clients:
            client.replies.clear()
        return list(replies.values())

    def _kit(self, query_keys: tuple[str, ...]) -> EngineKit:
        recorded = self._work.inputs.get("recorded")
        files = () if recorded is None else self._work.release("recorded").files
        return EngineKit(
            open_shelf=self._open_shelf,
            open_web=self._open_web,
            web=self._access,
            source=self._work.settings.source,
            files=tuple(self._work.release("recorded").directory / file.name for file in files),
            query_keys=query_keys,
        )

    def _open_shelf(self, name: RetrieverName) -> Shelf:
        datasets = {part: item for part, item in self._work.inputs.items() if isinstance(item, Dataset)}
        backend = open_backend(name, datasets, self._work.resources)
        return Shelf(backend.engines[name], backend.reader)

    def _open_web(self, interval_s: float) -> WebClient:
        limits, mailto = self._access.limits, self._access.mailto
        client = WebClient(limits, interval_s, _known_replies(self._work), mailto=mailto)
        self._clients.append(client)
        return client


def _known_replies(work: Workspace[EngineSettings]) -> dict[str, WebReplyRow]:
    """Replies that earlier datasets of the same engine and snapshot hold, by key."""
    settings = work.settings
    same = {"engine": settings.engine, "source": settings.source, "snapshot": settings.snapshot}
    known: dict[str, WebReplyRow] = {}
    for dataset in reversed(work.earlier):
        if same.items() <= dataset.manifest.parameters.items() and dataset.whole and dataset.files("replies"):
            known |= {row.key: row for row in WEB_REPLIES.rows(dataset.table("replies"))}
    return known


def _answer(
    engine: Engine | RecordedEngine, settings: EngineSettings, query: SearchQuery, _: Asker | None
) -> SubjectRows:
    found, outcome, note = ask_engine(engine, query, settings.depth)
    results = [
        SearchResultRow(
            query_key=query.query_key,
            engine=settings.tag,
            rank=rank,
            doc_key=document_key(result),
            title=result.title,
            abstract=result.abstract or None,
            url=result.url or None,
            score=result.score,
        )
        for rank, result in enumerate(found, 1)
    ]
    return SubjectRows([*results, SearchOutcomeRow(query.query_key, settings.tag, outcome, len(found), note)], outcome)


def ask_engine(engine: Engine | RecordedEngine, query: SearchQuery, n: int) -> Answer:
    """Asks an engine one query; whatever goes wrong in it is an outcome of this query alone.

    Raises:
        MissingDependency: The engine cannot run on this machine.
        UsageError: The engine was set up wrongly.
    """

    def ask() -> list[Found]:
        if isinstance(engine, RecordedEngine):
            found = engine.look_up(query.query_key, n)
        else:
            found = engine.search(query.text, n)
        return [_clean(result) for result in found[:n]]

    found = attempt(f"query {query.query_key}", ask, reraise=(MissingDependency, UsageError))
    return Answer(found, "scored" if found else "empty") if isinstance(found, list) else Answer([], *found)


def _clean(found: Found) -> Found:
    """Returns the result without invalid characters and surplus blanks, and with a finite score or none."""
    texts = (" ".join(text.encode("utf-8", "replace").decode().split()) for text in found[:4])
    finite = found.score is not None and math.isfinite(found.score)
    return Found(*texts, score=found.score if finite else None)


def _require_some(answers: Sequence[SubjectRows], tag: str) -> None:
    """Refuses queries that all failed: the engine does not work, which says nothing about its quality."""
    if len(answers) < 2 or any(answer.outcome != "failed" for answer in answers):
        return
    kind = TransientError if all(map(_is_out_of_reach, answers)) else StageFailed
    raise kind(
        f"stage search_results: engine {tag} answered none of {len(answers)} queries; last: {_notes(answers[-1])[-1]}; "
        "run it again when the cause is removed: what was answered is kept"
    )


def _is_out_of_reach(answer: SubjectRows) -> bool:
    """Returns whether a query failed because the service was busy or did not answer."""
    return answer.outcome == "failed" and all(note.startswith(TransientError.__name__) for note in _notes(answer))


def _notes(answer: SubjectRows) -> list[str]:
    return [row.note or "" for row in answer.rows if isinstance(row, SearchOutcomeRow)]
