"""Calls to language models as the response cache keeps them, for analysis outside."""

import pyarrow as pa

from schemas.table import Column, Table, declare

LLM_CALLS = declare(
    Table(
        "llm_calls",
        "One call to a language model.",
        (
            Column("key", pa.string(), "sha256 of the canonical request"),
            Column("request", pa.large_string(), "The canonical request as JSON; a picture stands as its digest"),
            Column("provider", pa.string(), "Name of the endpoint"),
            Column("model", pa.string(), "Model by the endpoint's name"),
            Column("prompt", pa.string(), "`id@version` of the prompt file", nullable=True),
            Column("attempt", pa.int32(), "Which asking of the same question, from 0"),
            Column("outcome", pa.string(), "`ok`, `failed`, `refused`, `over_budget`"),
            Column("reason", pa.string(), "Why, when it is not `ok`", nullable=True),
            Column("raw", pa.large_string(), "The reply's body as received, API key cut out", nullable=True),
            Column("input_tokens", pa.int64(), "Tokens read", unit="tokens"),
            Column("output_tokens", pa.int64(), "Tokens written, reasoning included", unit="tokens"),
            Column("cost_usd", pa.float64(), "Price when the call was made", unit="USD"),
            Column("estimated", pa.bool_(), "The endpoint reported no usage: tokens and cost are upper bounds"),
            Column("called_at", pa.string(), "When the call ended, UTC, ISO 8601"),
        ),
        key=("key",),
        order=("key",),
    )
)
