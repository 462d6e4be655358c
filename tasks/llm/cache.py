"""The response cache: every call ever made, with its raw reply."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import orjson

from schemas.llm import CallOutcome, PromptRef, Tokens, Usage
from tasks.llm.database import Database
from tasks.llm.exchange import FINAL, Call, Exchange, read_outcome
from tasks.llm.key import Miss, RequestKey, explain
from tasks.llm.wire import read_completion

logger = logging.getLogger(__name__)

COMPARED = 10_000
"""Number of stored calls that a miss is compared with: those of the same prompt and model first, newest first."""

_COLUMNS = "key, outcome, reason, raw, input_tokens, output_tokens, nano_usd, estimated"
_OPEN = f"calls.outcome NOT IN {tuple(sorted(FINAL))}"
_KEEP = f"""
INSERT INTO calls VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET
  outcome = excluded.outcome, reason = excluded.reason, raw = excluded.raw, input_tokens = excluded.input_tokens,
  output_tokens = excluded.output_tokens, nano_usd = excluded.nano_usd, estimated = excluded.estimated,
  called_at = excluded.called_at
WHERE {_OPEN}
"""
_FINISH = f"""
UPDATE calls SET outcome = ?, reason = ?, raw = ?, input_tokens = ?, output_tokens = ?, nano_usd = ?, estimated = ?,
  called_at = ?
WHERE key = ? AND {_OPEN}
"""


class Stored(NamedTuple):
    """A row of the cache: the exchange, and the parts that its key was made from."""

    exchange: Exchange
    parts: bytes
    called_at: str


class CostRow(NamedTuple):
    """Cost of all calls of one prompt, model and stage; failed calls are counted separately."""

    provider: str
    model: str
    prompt: str
    stage: str
    calls: int
    failed: int
    tokens: Tokens
    usd: float


class Cache:
    """Calls by request key, in a file that several processes may use at once.

    Failed calls are stored too, because a replay must fail where the run failed, but `find` does not return them: they
    are sent again, and the first final reply of any process is kept.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, key: str) -> Exchange | None:
        """Returns the call with this key, or None if it has no final reply."""
        row = self._database.execute(f"SELECT {_COLUMNS} FROM calls WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        exchange = _exchange(row)
        if exchange.outcome == "ok" and exchange.raw:  # stored before an empty reply was an outcome of its own
            completion = read_completion(exchange.raw)
            exchange = replace(exchange, completion=completion)
            if read_outcome(completion)[0] == "empty":
                return None
        return exchange if exchange.outcome in FINAL else None

    def judge(self, verdicts: Sequence[tuple[CallOutcome, str, str]]) -> Sequence[None]:
        """Records how stored replies ended once their form was checked: outcome, reason and key of each."""
        for verdict in verdicts:
            self._database.execute("UPDATE calls SET outcome = ?, reason = ? WHERE key = ?", verdict)
        return [None] * len(verdicts)

    def keep(self, finished: Sequence[tuple[Call, Exchange]]) -> list[Exchange]:
        """Stores finished calls and returns the stored ones, which another process may have written first."""
        now = _now()
        return [self._keep(call, exchange, now) for call, exchange in finished]

    def _keep(self, call: Call, exchange: Exchange, now: str) -> Exchange:
        about = (exchange.key, call.keyed.parts, call.provider, call.model, call.prompt, call.stage)
        if self._database.execute(_KEEP, (*about, *_result(exchange), now)).rowcount:
            return exchange
        logger.info("request %s: another process stored a reply first; its reply is kept", exchange.key[:12])
        return self.find(exchange.key) or exchange

    def finish(self, exchange: Exchange) -> None:
        """Stores the result of a call that was stored before as not yet answered."""
        self._database.execute(_FINISH, (*_result(exchange), _now(), exchange.key))

    def rows(self, keys: list[str] | None = None) -> Iterator[Stored]:
        """Yields stored calls by ascending key, failed ones too; all, or those of `keys`."""
        wanted = None if keys is None else orjson.dumps(keys).decode()
        query = (
            f"SELECT {_COLUMNS}, parts, called_at FROM calls "
            "WHERE ?1 IS NULL OR key IN (SELECT value FROM json_each(?1)) ORDER BY key"
        )
        for row in self._database.execute(query, (wanted,)):
            yield Stored(_exchange(row[:-2]), row[-2], row[-1])

    def explain_miss(self, asked: RequestKey) -> Miss:
        """Explains why a call is not found: which part of its key differs from the nearest stored call."""
        row = self._database.execute("SELECT outcome, reason FROM calls WHERE key = ?", (asked.key,)).fetchone()
        if row is not None:
            state = "stored, and would be found" if row[0] in FINAL else f"stored, but {row[0]} ({row[1]}): asked again"
            return Miss(asked.key, asked.key, note=state)
        parts = orjson.loads(asked.parts)
        query = "SELECT key, parts FROM calls ORDER BY (prompt = ?) + (model = ?) DESC, called_at DESC LIMIT ?"
        name = PromptRef(**parts["prompt"]).name if parts["prompt"] else ""
        return explain(asked, self._database.execute(query, (name, parts["model"], COMPARED)))

    def costs(self) -> list[CostRow]:
        """Returns the cost of all stored calls at the time they were made, by provider, model, prompt and stage."""
        query = (
            f"SELECT provider, model, prompt, stage, count(*), sum({_OPEN}), sum(input_tokens),"
            " sum(output_tokens), sum(nano_usd) FROM calls GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4"
        )
        return [
            CostRow(provider, model, prompt, stage, calls, failed, Tokens(read, written), nano_usd / 1e9)
            for provider, model, prompt, stage, calls, failed, read, written, nano_usd in self._database.execute(query)
        ]


def _result(exchange: Exchange) -> tuple[Any, ...]:
    usage = exchange.usage
    used = (*usage.tokens, usage.nano_usd, usage.estimated)
    return (exchange.outcome, exchange.reason, exchange.raw, *used)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _exchange(row: tuple[str, str, str, bytes, int, int, int, int]) -> Exchange:
    key, outcome, reason, raw, read, written, nano_usd, estimated = row
    usage = Usage(Tokens(read, written), nano_usd, bool(estimated))
    return Exchange(key, outcome, "cache", reason, raw, usage)  # pyright: ignore[reportArgumentType]
