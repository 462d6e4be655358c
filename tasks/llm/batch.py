"""Sends calls through an endpoint's batch service: a lower price, answers within a day, stored in the door's cache.

The cache's file records which calls wait in which batch, so that an interrupted run goes on waiting and sends nothing
twice. (A process killed after the endpoint accepts a batch and before it is recorded sends that one batch again.)
"""

import asyncio
import logging
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, NamedTuple

import orjson
from openai.types import Batch

from schemas.errors import BadInput, TransientError
from schemas.llm import NO_USAGE, Request, Tokens, Usage
from schemas.secrets import redact, redact_bytes
from tasks.llm.batch_service import BatchService, is_full
from tasks.llm.door import Door
from tasks.llm.exchange import Call, Exchange, SendResult, to_exchange
from tasks.llm.plan import BYTES_PER_TOKEN, PreparedRequest
from tasks.llm.prices import price_of
from tasks.llm.provider import OpenAiProvider, error_message

logger = logging.getLogger(__name__)

MAX_CALLS = 50_000
"""Calls that one batch may hold."""

MAX_BYTES = 100 * 2**20
"""Size of one batch's file; services accept up to twice that."""

ROUNDS = 3
"""How often a call is sent by batch, when its batch expires or loses it."""

PATIENCE_S = 24 * 3600.0
"""How long the endpoint may refuse every batch because too much waits there, in seconds."""

ENDED = frozenset({"completed", "failed", "expired", "cancelled"})

FAILED, REFUSED = "batch call failed: ", "batch call refused: "
"""How the reasons of calls begin that failed in a batch; what was refused is not sent again."""

_LIMIT = re.compile(r"[Ll]imit:? *([\d,]+)")


class BatchReport(NamedTuple):
    """Counts of requests found in the cache, answered by batch, not answered, and not sent because of the cap."""

    found: int
    answered: int
    failed: int
    over_budget: int


class _Queue:
    """How many tokens may wait at the endpoint at once; learned where it is not set."""

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self._told = limit is not None
        self.open: dict[str, int] = {}

    def room(self) -> int | None:
        """Tokens that may be added; None: any number. An empty queue takes at least one call."""
        return None if self.limit is None else self.limit - sum(self.open.values())

    def refused(self, tokens: int, said: str) -> None:
        """Learns from a refusal of a batch of so many tokens, and of what the endpoint said."""
        told = _LIMIT.search(said)
        waiting = sum(self.open.values())
        learned = int(told[1].replace(",", "")) if told else max(waiting, tokens // 2, 1)
        self.limit = min(learned, self.limit or learned) if told else learned
        if self.limit >= waiting + tokens:  # what it says does not explain the refusal: others use the same queue
            self.limit = max(tokens // 2, 1)
        self._told = bool(told)

    def accepted(self) -> None:
        """Lets more calls wait after a guess was low enough."""
        if self.limit is not None and not self._told:
            self.limit *= 2


class BatchClient:
    """Sends requests to an endpoint's batch service and stores the answers.

    Args:
        door: Its cache and budget are used.
        provider: The endpoint; the caller closes it.
        poll_s: Seconds between two looks at the open batches.
        max_calls: Calls of one batch.
        progress: Called with a line about each look at a batch.
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
        self._door, self._database = door, door.database
        self._service = BatchService(door.settings, provider)
        self._poll_s, self._max_calls, self._progress = poll_s, max_calls, progress
        self._queue = _Queue(door.settings.batch_tokens)
        self._calls: dict[str, Call] = {}
        self._refused_at: float | None = None

    async def run(self, requests: Iterable[Request[Any]]) -> BatchReport:
        """Sends the requests that are not in the cache, waits for all batches to end, and stores the replies.

        Answers of the wrong form are repaired by a further batch. What a batch lost or left until it expired is sent
        again. Batches hold no more than the endpoint lets wait at once; what it refuses is sent again when others end.

        Raises:
            BadInput: As `Door.ask`.
            TransientError: The endpoint failed through all tries; run again to go on.
        """
        wanted = {asked.keyed.key: asked for asked in map(self._door.prepare, requests)}
        try:
            report = await self._answer(wanted)
            turns = (self._door.repair_of(asked) for asked in wanted.values())
            await self._answer({turn.keyed.key: turn for turn in turns if turn})
        finally:
            await self._service.close()
        return report

    async def _answer(self, wanted: Mapping[str, PreparedRequest]) -> BatchReport:
        missing = {key: asked.call() for key, asked in wanted.items() if not self._door.cache.find(key)}
        self._calls |= missing
        over: set[str] = set()
        for _ in range(ROUNDS):
            waiting = self._select("key, batch, input_tokens", list(missing))
            for _, batch, tokens in waiting:
                self._queue.open[batch] = self._queue.open.get(batch, 0) + tokens // BYTES_PER_TOKEN
            known = {row[0] for row in waiting} | over
            unanswered = [call for key, call in missing.items() if key not in known and self._is_open(key)]
            if not (unanswered or waiting):
                break
            over |= await self._drain(deque(unanswered))
        answered = sum(self._door.cache.find(key) is not None for key in missing)
        return BatchReport(len(wanted) - len(missing), answered, len(missing) - answered - len(over), len(over))

    def _is_open(self, key: str) -> bool:
        """Returns whether a call is to be sent (again): not when it is answered, or was refused for what it says."""
        if self._door.cache.find(key):
            return False
        row = self._database.execute("SELECT reason FROM calls WHERE key = ?", (key,)).fetchone()
        return row is None or not row[0].startswith(REFUSED)

    async def _drain(self, calls: deque[Call]) -> set[str]:
        """Sends calls, as many at once as the endpoint lets wait; returns the keys of those that the cap prevented."""
        over: set[str] = set()
        while calls or self._queue.open:
            while chunk := self._chunk(calls):
                allowed = [call for call in chunk if self._reserve(call)]
                over |= {call.keyed.key for call in chunk} - {call.keyed.key for call in allowed}
                if allowed and not await self._submit(allowed):
                    calls.extendleft(reversed(allowed))
                    break
            for batch in list(self._queue.open):
                calls.extendleft(reversed(await self._look(batch)))
            if calls or self._queue.open:
                await asyncio.sleep(self._poll_s)
        return over

    def _chunk(self, calls: deque[Call]) -> list[Call]:
        """Takes the calls of the next batch from the front; none while the queue is full."""
        room, chunk, size, tokens = self._queue.room(), list[Call](), 0, 0
        while calls and len(chunk) < self._max_calls:
            call = calls[0]
            size, tokens = size + len(call.body), tokens + call.likely.tokens.input
            alone = not chunk and not self._queue.open
            if (chunk and size > MAX_BYTES) or (room is not None and tokens > room and not alone):
                break
            chunk.append(calls.popleft())
        return chunk

    def _select(self, columns: str, keys: list[str]) -> list[tuple[Any, ...]]:
        query = f"SELECT {columns} FROM batched WHERE key IN (SELECT value FROM json_each(?))"
        return self._database.execute(query, (orjson.dumps(keys).decode(),)).fetchall()

    def _reserve(self, call: Call) -> bool:
        if self._door.budget.take(call.stage, _batch_bound(call)):
            return True
        reason = f"the cap of the run or of stage {call.stage!r} leaves less than the batch call may cost"
        self._door.cache.keep([(call, Exchange(call.keyed.key, "over_budget", "budget", reason))])
        return False

    async def _submit(self, calls: list[Call]) -> bool:
        """Starts a batch; returns False when the endpoint lets no more calls wait."""
        try:
            batch = await self._service.create(b"\n".join(map(_line, calls)), lambda: self._release(calls))
        except (BadInput, TransientError) as error:
            if not is_full(str(error)):
                raise
            self._refuse(_read_tokens(calls), str(error))
            return False
        run = self._door.settings.budget.run
        with self._database.transaction():
            for call in calls:
                key, bound = call.keyed.key, _batch_bound(call)
                self._door.cache.keep([(call, Exchange(key, "failed", "provider", f"waiting in batch {batch.id}"))])
                row = (key, batch.id, run, call.stage, call.model, *bound.tokens, bound.nano_usd)
                self._database.execute("INSERT OR REPLACE INTO batched VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        self._queue.open[batch.id] = _read_tokens(calls)
        return True

    def _refuse(self, tokens: int, said: str) -> None:
        """Records that a batch was refused because too much waits.

        Raises:
            TransientError: No batch was taken for a day.
        """
        now = asyncio.get_running_loop().time()
        self._refused_at = now if self._refused_at is None else self._refused_at
        if now - self._refused_at > PATIENCE_S:
            where = self._door.settings.base_url
            raise TransientError(f"{where} takes no batch ({said}); run it again later: replies so far are kept")
        self._queue.refused(tokens, said)

    def _release(self, calls: list[Call]) -> None:
        for call in calls:
            self._door.budget.correct(call.stage, _batch_bound(call), NO_USAGE)

    async def _look(self, batch_id: str) -> list[Call]:
        """Looks at an open batch, and stores its replies when it has ended; returns the calls of one that was refused.

        Calls that it leaves without a reply are stored as failed.
        """
        batch = await self._service.look(batch_id)
        if batch:
            done = batch.request_counts
            self._progress(f"batch {batch_id}: {batch.status}, {done.completed if done else 0} answered")
            if batch.status not in ENDED:
                return []
        tokens = self._queue.open.pop(batch_id)
        why = _why(batch, batch_id)
        if batch and batch.status == "failed" and is_full(why):
            keys = self._end(batch_id, why)
            self._refuse(tokens, why)
            return [self._calls[key] for key in keys if key in self._calls]
        self._queue.accepted()
        self._refused_at = None
        for file_id in filter(None, (batch.output_file_id, batch.error_file_id) if batch else ()):
            await self._service.patiently(lambda file_id=file_id: self._read(file_id))
        self._end(batch_id, why)
        return []

    def _end(self, batch_id: str, why: str) -> list[str]:
        """Stores the calls of a batch that have no reply as failed, and returns their keys."""
        left = self._database.execute("SELECT key FROM batched WHERE batch = ?", (batch_id,)).fetchall()
        for (key,) in left:
            self._finish(key, SendResult(trouble=why))
        return [key for (key,) in left]

    async def _read(self, file_id: str) -> None:
        """Stores the replies of one result file; replies stored before are skipped."""
        async with self._service.client.files.with_streaming_response.content(file_id) as response:
            async for line in _lines(response.iter_bytes(), 2 * self._door.settings.max_reply_bytes):
                match _loads(line):
                    case {"custom_id": str(key), "response": {"status_code": int(status), "body": body}}:
                        self._finish(key, _sent(status, body))
                    case {"custom_id": str(key), "error": error}:
                        self._finish(key, _sent(0, {"error": error}))
                    case _:
                        logger.warning("result file %s: skipped a line without custom_id or result", file_id)

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


def _why(batch: Batch | None, batch_id: str) -> str:
    """Returns why a batch left calls without a reply."""
    if batch is None:
        return redact(f"the endpoint does not know batch {batch_id} any more")
    errors = [
        f"{error.code or ''} {error.message or ''}".strip() for error in (batch.errors and batch.errors.data) or []
    ]
    return redact("; ".join([f"batch {batch.status}", *errors[:3]]))


def _sent(status: int, told: Any) -> SendResult:
    body = redact_bytes(orjson.dumps(told))
    if status == 200:
        return SendResult(body)
    code, said = error_message(body)
    again = not 400 <= status < 500 or status in (408, 409, 429)
    reason = f"{FAILED if again else REFUSED}{said or code or 'no reason given'}"
    return SendResult(trouble=reason, refused=code == "content_filter")


def _batch_bound(call: Call) -> Usage:
    return call.bound._replace(nano_usd=call.price.batched().nano_usd(call.bound.tokens))


def _read_tokens(calls: Iterable[Call]) -> int:
    return sum(call.likely.tokens.input for call in calls)


def _line(call: Call) -> bytes:
    named = {"custom_id": call.keyed.key, "method": "POST", "url": "/v1/chat/completions"}
    return orjson.dumps(named | {"body": orjson.Fragment(call.body)})


def _loads(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return None


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
