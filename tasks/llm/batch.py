"""Sends calls through an endpoint's batch service: a lower price, answers within a day, stored in the door's cache.

The cache's file records which calls wait in which batch, so that an interrupted run goes on waiting and sends nothing
twice. (A process killed after the endpoint accepts a batch and before it is recorded sends that one batch again.)
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

import httpx2
import openai
import orjson
from openai.types import Batch

from schemas.errors import ArenaError, BadInput, TransientError
from schemas.llm import NO_USAGE, Request, Tokens, Usage
from schemas.secrets import redact, redact_bytes
from tasks.http.retry import RetryRules, wait_s
from tasks.llm.door import Door
from tasks.llm.exchange import Call, Exchange, SendResult, to_exchange
from tasks.llm.prices import price_of
from tasks.llm.provider import OpenAiProvider, error_message

logger = logging.getLogger(__name__)

MAX_CALLS = 50_000
"""Calls that one batch may hold."""

MAX_BYTES = 100 * 2**20
"""Size of one batch's file; services accept up to twice that."""

ENDED = frozenset({"completed", "failed", "expired", "cancelled"})

ResultT = TypeVar("ResultT")


class BatchReport(NamedTuple):
    """Counts of requests found in the cache, answered by batch, not answered, and not sent because of the cap."""

    found: int
    answered: int
    failed: int
    over_budget: int


class BatchClient:
    """Sends requests to an endpoint's batch service and stores the answers.

    Args:
        door: Its cache and budget are used.
        provider: The endpoint; the caller closes it.
        poll_s: Seconds between two status requests for a batch.
        max_calls: Calls of one batch.
        progress: Called with a line about each status request.
    """

    def __init__(
        self,
        door: Door,
        provider: OpenAiProvider,
        *,
        poll_s: float = 30.0,
        max_calls: int = MAX_CALLS,
        progress: Callable[[str], None] = logger.info,
    ) -> None:
        self._door, self._provider = door, provider
        self._database = door.database
        self._poll_s, self._max_calls, self._progress = poll_s, max_calls, progress

    async def run(self, requests: Iterable[Request[Any]]) -> BatchReport:
        """Sends the requests that are not in the cache, waits for all batches to end, and stores the replies.

        An answer of the wrong form is repaired later, when the door is asked for it.

        Raises:
            BadInput: As `Door.ask`.
            TransientError: The endpoint failed through all tries; run again to go on.
        """
        wanted = {asked.keyed.key: asked for asked in map(self._door.prepare, requests)}
        missing = {key: asked.call() for key, asked in wanted.items() if not self._door.cache.find(key)}
        waiting = {row[0] for row in self._select("key", list(missing))}
        allowed = [call for key, call in missing.items() if key not in waiting and self._reserve(call)]
        for chunk in _chunks(allowed, self._max_calls):
            await self._submit(chunk)
        for (batch,) in self._select("DISTINCT batch", list(missing)):
            await self._collect(batch)
        answered = sum(self._door.cache.find(key) is not None for key in missing)
        over = len(missing) - len(waiting) - len(allowed)
        return BatchReport(len(wanted) - len(missing), answered, len(missing) - answered - over, over)

    def _select(self, columns: str, keys: list[str]) -> list[tuple[Any, ...]]:
        query = f"SELECT {columns} FROM batched WHERE key IN (SELECT value FROM json_each(?))"
        return self._database.execute(query, (orjson.dumps(keys).decode(),)).fetchall()

    def _reserve(self, call: Call) -> bool:
        if self._door.budget.take(call.stage, _batch_bound(call)):
            return True
        reason = f"the cap of the run or of stage {call.stage!r} leaves less than the batch call may cost"
        self._door.cache.keep(call, Exchange(call.keyed.key, "over_budget", "budget", reason))
        return False

    async def _submit(self, calls: list[Call]) -> None:
        lines = b"\n".join(_line(call) for call in calls)
        client = self._provider.client
        try:
            file = await self._patiently(lambda: client.files.create(file=("calls.jsonl", lines), purpose="batch"))
        except ArenaError:
            self._release(calls)
            raise
        try:
            batch = await self._patiently(
                lambda: client.batches.create(
                    input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h"
                ),
                once=True,
            )
        except BadInput:  # rejected; after any other failure the batch may have been accepted, so it stays counted
            self._release(calls)
            raise
        run = self._door.settings.budget.run
        with self._database.transaction():
            for call in calls:
                key, bound = call.keyed.key, _batch_bound(call)
                self._door.cache.keep(call, Exchange(key, "failed", "provider", f"waiting in batch {batch.id}"))
                row = (key, batch.id, run, call.stage, call.model, *bound.tokens, bound.nano_usd)
                self._database.execute("INSERT OR REPLACE INTO batched VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)

    def _release(self, calls: list[Call]) -> None:
        for call in calls:
            self._door.budget.correct(call.stage, _batch_bound(call), NO_USAGE)

    async def _collect(self, batch_id: str) -> None:
        while batch := await self._patiently(lambda: self._look(batch_id)):
            done = batch.request_counts
            self._progress(f"batch {batch_id}: {batch.status}, {done.completed if done else 0} answered")
            if batch.status in ENDED:
                break
            await asyncio.sleep(self._poll_s)
        why = f"the endpoint does not know batch {batch_id} any more"
        if batch:
            for file_id in filter(None, (batch.output_file_id, batch.error_file_id)):
                await self._patiently(lambda file_id=file_id: self._read(file_id))
            errors = [error.message or "" for error in (batch.errors and batch.errors.data) or []]
            why = "; ".join([f"batch {batch.status}", *errors[:3]])
        why = redact(why)
        for (key,) in self._database.execute("SELECT key FROM batched WHERE batch = ?", (batch_id,)).fetchall():
            self._finish(key, SendResult(trouble=why))

    async def _look(self, batch_id: str) -> Batch | None:
        try:
            return await self._provider.client.batches.retrieve(batch_id)
        except openai.NotFoundError:
            return None

    async def _read(self, file_id: str) -> None:
        """Stores the replies of one result file; replies stored before are skipped."""
        async with self._provider.client.files.with_streaming_response.content(file_id) as response:
            async for line in _lines(response.iter_bytes(), 2 * self._door.settings.max_reply_bytes):
                match _loads(line):
                    case {"custom_id": str(key), "response": {"status_code": int(status), "body": body}}:
                        self._finish(key, self._sent(status, body))
                    case {"custom_id": str(key), "error": error}:
                        self._finish(key, self._sent(0, {"error": error}))
                    case _:
                        logger.warning("result file %s: skipped a line without custom_id or result", file_id)

    def _sent(self, status: int, told: Any) -> SendResult:
        body = redact_bytes(orjson.dumps(told))
        if status == 200:
            return SendResult(body)
        code, said = error_message(body)
        return SendResult(
            trouble=f"batch call failed: {said or code or 'no reason given'}", refused=code == "content_filter"
        )

    def _finish(self, key: str, sent: SendResult) -> None:
        with self._database.transaction():
            row = self._database.execute("DELETE FROM batched WHERE key = ? RETURNING *", (key,)).fetchone()
            if row is None:
                return
            _, _, run, stage, model, read, written, nano_usd = row
            taken = Usage(Tokens(read, written), nano_usd)
            exchange = to_exchange(key, sent, taken, price_of(self._door.settings, model).batched())
            self._door.cache.finish(exchange)
            self._door.budget.correct(stage, taken, exchange.usage, run)

    async def _patiently(self, call: Callable[[], Awaitable[ResultT]], *, once: bool = False) -> ResultT:
        """Calls the endpoint, again where that may help; `once`: not where it may have been heard the first time."""
        settings = self._door.settings.retry
        tries = 0
        while True:
            tries += 1
            try:
                return await call()
            except (openai.APIStatusError, openai.APIConnectionError, httpx2.RequestError) as error:
                sent = self._provider.trouble(error)
            if not sent.retry or tries == settings.tries or (once and sent.charged):
                where = f"batch service of {self._door.settings.base_url}"
                raise sent.error or (TransientError if sent.retry else BadInput)(f"{where}: {sent.trouble}") from None
            await asyncio.sleep(wait_s(RetryRules.of(settings), tries, sent.retry_after_s))


def _batch_bound(call: Call) -> Usage:
    return call.bound._replace(nano_usd=call.price.batched().nano_usd(call.bound.tokens))


def _line(call: Call) -> bytes:
    named = {"custom_id": call.keyed.key, "method": "POST", "url": "/v1/chat/completions"}
    return orjson.dumps(named | {"body": orjson.Fragment(call.body)})


def _loads(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return None


def _chunks(calls: list[Call], max_calls: int) -> Iterator[list[Call]]:
    chunk: list[Call] = []
    size = 0
    for call in calls:
        if chunk and (len(chunk) == max_calls or size + len(call.body) > MAX_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(call)
        size += len(call.body)
    if chunk:
        yield chunk


async def _lines(chunks: AsyncIterator[bytes], limit: int) -> AsyncIterator[bytes]:
    """Yields the lines of a stream; a line longer than `limit` bytes is an error."""
    rest = b""
    async for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line.strip():
                yield line
        if len(rest) > limit:
            raise BadInput(f"a line of the batch result is longer than {limit} bytes; raise max_reply_bytes")
    if rest.strip():
        yield rest
