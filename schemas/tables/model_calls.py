"""What a stage asked language models."""

from typing import Annotated, NamedTuple

import pyarrow as pa

from schemas.table import Column, Table, declare

CALL_OUTCOMES = (
    "`ok`, `failed`, `refused`, `over_budget`, `empty` (no text), `cut` (stopped at the token limit), `invalid` (not "
    "of the form asked for)"
)


class ModelCallRow(NamedTuple):
    """One question to a language model, asked for a row of the dataset that the table stands beside."""

    subject: Annotated[str, Column(pa.string(), "For what it was asked: a topic, survey, query or question by its id")]
    place: Annotated[int, Column(pa.int32(), "Which of the subject's questions, from 1")]
    prompt: Annotated[str | None, Column(pa.string(), "`id@version` of the prompt file")]
    keys: Annotated[
        list[str], Column(pa.list_(pa.string()), "Request keys: one, or two where the answer had to be repaired")
    ]
    outcome: Annotated[str, Column(pa.string(), CALL_OUTCOMES)]
    reason: Annotated[str | None, Column(pa.string(), "Why, when it is not `ok`")]
    input_tokens: Annotated[int, Column(pa.int64(), "Tokens read when the calls were made", unit="tokens")]
    output_tokens: Annotated[int, Column(pa.int64(), "Tokens written, reasoning included", unit="tokens")]
    cost_usd: Annotated[float, Column(pa.float64(), "Price when the calls were made", unit="USD")]


MODEL_CALLS = declare(Table("model_calls", ModelCallRow, key=("subject", "place")))
