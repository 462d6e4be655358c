"""Exports the response cache to a Parquet file."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import orjson
import pyarrow as pa

from schemas.llm import PromptRef
from schemas.tables.llm_calls import LLM_CALLS, LlmCallRow
from tasks.llm.cache import Cache, Stored
from tasks.llm.wire import read_completion
from tasks.store.parquet import write_table

BATCH = 1000
"""Calls held in memory at once."""


def export_calls(cache: Cache, path: Path, keys: Iterable[str] | None = None) -> int:
    """Writes calls to a Parquet file (table `llm_calls`) and returns their number.

    Args:
        cache: The calls.
        path: File to create.
        keys: Which calls; None: all.
    """
    rows = cache.rows(None if keys is None else sorted(set(keys)))
    return write_table(path, LLM_CALLS, _batches(rows))


def _batches(rows: Iterator[Stored]) -> Iterator[pa.Table]:
    while chunk := list(islice(rows, BATCH)):
        yield LLM_CALLS.of(map(_row, chunk))


def _row(stored: Stored) -> LlmCallRow:
    exchange, parts = stored.exchange, orjson.loads(stored.parts)
    completion = read_completion(exchange.raw)
    return LlmCallRow(
        key=exchange.key,
        request=stored.parts.decode(),
        provider=parts["provider"],
        model=parts["model"],
        prompt=PromptRef(**parts["prompt"]).name if parts["prompt"] else None,
        attempt=parts["attempt"],
        outcome=exchange.outcome,
        reason=exchange.reason or None,
        reported_model=completion.model or None,
        system_fingerprint=completion.fingerprint or None,
        raw=exchange.raw.decode("utf-8", "replace") or None,
        input_tokens=exchange.usage.tokens.input,
        output_tokens=exchange.usage.tokens.output,
        cost_usd=exchange.usage.usd,
        estimated=exchange.usage.estimated,
        called_at=stored.called_at,
    )
