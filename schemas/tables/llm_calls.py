"""Calls to language models as the response cache keeps them, for analysis outside."""

from typing import Annotated, NamedTuple

import pyarrow as pa

from schemas.table import Column, Table, declare
from schemas.tables.model_calls import CALL_OUTCOMES


class LlmCallRow(NamedTuple):
    """One call to a language model."""

    key: Annotated[str, Column(pa.string(), "sha256 of the canonical request")]
    request: Annotated[str, Column(pa.large_string(), "The canonical request as JSON; a picture stands as its digest")]
    provider: Annotated[str, Column(pa.string(), "Name of the endpoint")]
    model: Annotated[str, Column(pa.string(), "Model by the endpoint's name")]
    prompt: Annotated[str | None, Column(pa.string(), "`id@version` of the prompt file")]
    attempt: Annotated[int, Column(pa.int32(), "Which asking of the same question, from 0")]
    outcome: Annotated[str, Column(pa.string(), CALL_OUTCOMES)]
    reason: Annotated[str | None, Column(pa.string(), "Why, when it is not `ok`")]
    reported_model: Annotated[str | None, Column(pa.string(), "Model that the endpoint says has answered")]
    system_fingerprint: Annotated[str | None, Column(pa.string(), "Version of the model, as the endpoint names it")]
    raw: Annotated[str | None, Column(pa.large_string(), "The reply's body as received, API key cut out")]
    input_tokens: Annotated[int, Column(pa.int64(), "Tokens read", unit="tokens")]
    output_tokens: Annotated[int, Column(pa.int64(), "Tokens written, reasoning included", unit="tokens")]
    cost_usd: Annotated[float, Column(pa.float64(), "Price when the call was made", unit="USD")]
    estimated: Annotated[bool, Column(pa.bool_(), "The endpoint reported no usage: tokens and cost are upper bounds")]
    called_at: Annotated[str, Column(pa.string(), "When the call ended, UTC, ISO 8601")]


LLM_CALLS = declare(Table("llm_calls", LlmCallRow, key=("key",), order=("key",)))
