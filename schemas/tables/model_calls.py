"""What a stage asked language models."""

import pyarrow as pa

from schemas.table import Column, Table, declare

MODEL_CALLS = declare(
    Table(
        "model_calls",
        "One question to a language model, asked for a row of the dataset that the table stands beside.",
        (
            Column("subject", pa.string(), "For what it was asked: a topic, survey, query or question by its id"),
            Column("place", pa.int32(), "Which of the subject's questions, from 1"),
            Column("prompt", pa.string(), "`id@version` of the prompt file", nullable=True),
            Column("keys", pa.list_(pa.string()), "Request keys: one, or two where the answer had to be repaired"),
            Column("outcome", pa.string(), "`ok`, `failed`, `refused`, `over_budget`"),
            Column("reason", pa.string(), "Why, when it is not `ok`", nullable=True),
            Column("input_tokens", pa.int64(), "Tokens read when the calls were made", unit="tokens"),
            Column("output_tokens", pa.int64(), "Tokens written, reasoning included", unit="tokens"),
            Column("cost_usd", pa.float64(), "Price when the calls were made", unit="USD"),
        ),
        key=("subject", "place"),
    )
)
