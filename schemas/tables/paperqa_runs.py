"""What a system answered to questions over papers, and how it came to its answers."""

import pyarrow as pa

from schemas.table import Column, Table, declare
from schemas.tables.paperqa_questions import UUID

TAG = Column("tag", pa.string(), "Name of the run")

PAPERQA_ANSWERS = declare(
    Table(
        "paperqa_answers",
        "A system's answer to one question.",
        (
            TAG,
            UUID,
            Column("answer", pa.string(), "Text that is scored; null unless the outcome is `answered`", nullable=True),
            Column("outcome", pa.string(), "How it ended; see `schemas.paperqa.AnswerOutcome`"),
            Column("note", pa.string(), "Why, when there is no answer; papers that the library lacks", nullable=True),
            Column("turns", pa.int32(), "Replies of the model"),
            Column("input_tokens", pa.int64(), "Tokens read", unit="tokens"),
            Column("output_tokens", pa.int64(), "Tokens written", unit="tokens"),
            Column("cost_usd", pa.float64(), "Price of all calls", unit="USD"),
        ),
        key=("tag", "uuid"),
    )
)

PAPERQA_STEPS = declare(
    Table(
        "paperqa_steps",
        "One step of a trajectory.",
        (
            UUID,
            Column("turn", pa.int32(), "From 1"),
            Column("action", pa.string(), "Name of the action; null: the reply held none", nullable=True),
            Column("arguments", pa.string(), "Arguments as JSON, or what the model wrote instead"),
            Column("observation", pa.string(), "What came back; long ones are cut"),
            Column("images", pa.int32(), "Pictures that came back"),
        ),
        key=("uuid", "turn"),
    )
)

PAPERQA_LOOKUPS = declare(
    Table(
        "paperqa_lookups",
        "One use of the library by a system.",
        (
            UUID,
            Column("place", pa.int32(), "From 1"),
            Column("tool", pa.string(), "`dense`, `bm25`, `sql`, `page`, `paper`"),
            Column("request", pa.string(), "Query, SQL, or page"),
            Column("returned", pa.int32(), "Passages, rows or pages that came back"),
            Column("papers", pa.list_(pa.string()), "Papers that passages or pages came from"),
        ),
        key=("uuid", "place"),
    )
)
