"""The `search_results` stage: an engine answers every query of the test sets."""

import logging
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa

from schemas.errors import ArenaError, MissingDependency, StageFailed, TransientError, UsageError
from schemas.identifiers import Outcome
from schemas.search import EngineSettings, Found, SearchQuery, document_key
from schemas.settings import RetrieverName
from schemas.table import AnyTable
from schemas.tables.search_results import SEARCH_OUTCOMES, SEARCH_RESULTS, WEB_REPLIES, WebReplyRow
from tasks.ranking.answers import NOTE_LENGTH
from tasks.retrieval.backend import open_backend
from tasks.search.engine import Engine, EngineKit, RecordedEngine, RegisteredEngine, Shelf, WebAccess, find_engine
from tasks.search.queries import read_queries
from tasks.search.web_engine import WebClient
from tasks.store.dataset import Dataset
from tasks.store.parquet import write_table
from tasks.store.shard import Shard, in_shards
from tasks.store.stage import Stage, require_version, stage
from tasks.store.workspace import Workspace

log = logging.getLogger(__name__)

SHARD_QUERIES = 25
"""Queries of a shard: what a killed search asks again at most."""

NO_ACCESS = WebAccess()

Row = dict[str, Any]


class Answer(NamedTuple):
    """What an engine returned for a query, and how it ended."""

    query: SearchQuery
    found: list[Found]
    outcome: Outcome
    note: str | None = None


@stage("search_results", version=1, settings=EngineSettings, after="search_queries")
def search_results(work: Workspace[EngineSettings]) -> None:
    """Writes SEARCH_RESULTS and, as side tables, SEARCH_OUTCOMES and, for services on the web, WEB_REPLIES.

    Inputs: `queries`; `documents`, `surveys` and the indexes for an edition's engine; `recorded` for engine `file`.

    A query on which the engine fails is an outcome; the others go on. Replies that an earlier dataset of the same
    settings holds are not asked for again.

    Raises:
        TransientError: Every query of a shard failed because a service was busy or out of reach: it is down.
        StageFailed: Every query of a shard failed for other reasons, or the registered engine has another version than
            the settings say.
    """
    _search(work, NO_ACCESS)


def with_web(access: WebAccess) -> Stage[EngineSettings]:
    """The stage with addresses and keys for services on the web, which enter no key and are written nowhere."""
    return replace(search_results, function=lambda work: _search(work, access))


def _search(work: Workspace[EngineSettings], access: WebAccess) -> None:
    settings = work.settings
    registered = find_engine(settings.engine)
    require_version(f"stage search_results: engine {registered.name}", registered.version, settings.engine_version)
    queries = read_queries(work.dataset("queries"), settings.limit_queries)
    shards = in_shards(queries, SHARD_QUERIES)
    if work.finished() >= set(shards):
        return
    desk = _Desk(work, access, registered)
    try:
        engine = registered.open(desk.kit(tuple(query.query_key for query in queries)))
        for shard in work.pending(list(shards)):
            with shard:
                answers = [ask_engine(engine, query, settings.depth) for query in shards[shard.name]]
                _require_some(answers, settings.tag)
                _write(shard, answers, settings.tag)
                desk.write_replies(shard)
    finally:
        desk.close()


class _Desk:
    """What an engine is opened with: the edition's indexes, recorded results, clients that remember."""

    def __init__(self, work: Workspace[EngineSettings], access: WebAccess, registered: RegisteredEngine) -> None:
        self._work = work
        self._access = access
        self._live = registered.live
        self._clients: list[WebClient] = []

    def kit(self, query_keys: tuple[str, ...]) -> EngineKit:
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

    def write_replies(self, shard: Shard) -> None:
        """Writes the replies that came since the last shard."""
        if self._live:
            rows = {reply.key: reply._asdict() for client in self._clients for reply in client.replies}
            _write_rows(shard, "replies", WEB_REPLIES, list(rows.values()))
            for client in self._clients:
                client.replies.clear()

    def close(self) -> None:
        for client in self._clients:
            client.close()


def _known_replies(work: Workspace[EngineSettings]) -> dict[str, WebReplyRow]:
    """Replies that earlier datasets of the same engine and snapshot hold, by key."""
    settings = work.settings
    same = {"engine": settings.engine, "source": settings.source, "snapshot": settings.snapshot}
    known: dict[str, WebReplyRow] = {}
    for dataset in reversed(work.earlier):
        if same.items() <= dataset.manifest.parameters.items() and dataset.files("replies"):
            known |= {row.key: row for row in WEB_REPLIES.rows(dataset.table("replies"))}
    return known


def ask_engine(engine: Engine | RecordedEngine, query: SearchQuery, n: int) -> Answer:
    """Asks an engine one query; whatever goes wrong in it is an outcome of this query alone.

    Raises:
        MissingDependency: The engine cannot run on this machine.
        UsageError: It was set up wrongly.
    """
    try:
        if isinstance(engine, RecordedEngine):
            found = engine.look_up(query.query_key, n)
        else:
            found = engine.search(query.text, n)
        found = [_clean(result) for result in found[:n]]
    except (MissingDependency, UsageError):
        raise
    except Exception as error:
        expected = isinstance(error, ArenaError)
        log.warning("query %s: the engine failed: %s", query.query_key, error, exc_info=not expected)
        note = f"{type(error).__name__}: {error}"[:NOTE_LENGTH]
        return Answer(query, [], "failed", note)
    return Answer(query, found, "scored" if found else "empty")


def _clean(found: Found) -> Found:
    """Texts without half characters and surplus blanks, and a score that is a number or none."""
    texts = (" ".join(text.encode("utf-8", "replace").decode().split()) for text in found[:4])
    finite = found.score is not None and math.isfinite(found.score)
    return Found(*texts, score=found.score if finite else None)


def _require_some(answers: Sequence[Answer], tag: str) -> None:
    """A shard of failures alone says that the engine does not work, not how good it is."""
    if len(answers) < 2 or any(answer.outcome != "failed" for answer in answers):
        return
    notes = [answer.note or "" for answer in answers]
    kind = TransientError if all(note.startswith(TransientError.__name__) for note in notes) else StageFailed
    raise kind(
        f"stage search_results: engine {tag} answered none of {len(answers)} queries; last: {notes[-1]}; "
        "run it again when that is mended: what was answered is kept"
    )


def _write(shard: Shard, answers: Sequence[Answer], tag: str) -> None:
    results: list[Row] = []
    outcomes: list[Row] = []
    for query, found, outcome, note in answers:
        results += [
            {
                "query_key": query.query_key,
                "engine": tag,
                "rank": rank,
                "doc_key": document_key(result),
                "title": result.title,
                "abstract": result.abstract or None,
                "url": result.url or None,
                "score": result.score,
            }
            for rank, result in enumerate(found, 1)
        ]
        outcomes.append(
            {
                "query_key": query.query_key,
                "engine": tag,
                "outcome": outcome,
                "returned": len(found),
                "note": note,
            }
        )
        counts = shard.counts
        counts.read += 1
        counts.kept += outcome == "scored"
        counts.failed += outcome == "failed"
        if outcome == "empty":
            counts.dropped["empty"] = counts.dropped.get("empty", 0) + 1
    _write_rows(shard, "part", SEARCH_RESULTS, results)
    _write_rows(shard, "outcomes", SEARCH_OUTCOMES, outcomes)


def _write_rows(shard: Shard, prefix: str, table: AnyTable, rows: list[Row]) -> None:
    path = shard.file(f"{prefix}-{shard.name}.parquet")
    write_table(path, table, pa.Table.from_pylist(rows, table.arrow))
