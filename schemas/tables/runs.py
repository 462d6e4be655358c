"""What a system returned: ranked documents, the searches behind them, and how it ended on each topic."""

import pyarrow as pa

from schemas.table import Column, Table, declare

RUNS = declare(
    Table(
        "runs",
        "One retrieved document of a topic.",
        (
            Column("topic_id", pa.int64(), "corpus_id of the survey"),
            Column("corpus_id", pa.int64(), "The retrieved document"),
            Column("rank", pa.int32(), "Place in the list, from 1"),
            Column("score", pa.float64(), "Strictly decreasing with rank"),
            Column("tag", pa.string(), "Name of the run"),
        ),
        key=("tag", "topic_id", "corpus_id"),
        order=("topic_id", "rank"),
    )
)

SEARCHES = declare(
    Table(
        "searches",
        "One query that a system sent through its research desk.",
        (
            Column("topic_id", pa.int64(), "corpus_id of the survey"),
            Column("position", pa.int32(), "Order of the query in the topic, from 0"),
            Column("query", pa.string(), "Text as sent"),
            Column("retriever", pa.string(), "Which retriever answered"),
            Column("k", pa.int32(), "Documents asked for"),
            Column("returned", pa.int32(), "Documents returned"),
            Column("rounds", pa.int32(), "Times the search was widened, 1 for none"),
            Column("depth", pa.int32(), "Length of the ranking that was looked at"),
            Column("dropped_survey", pa.int32(), "Hits removed because they are surveys"),
            Column("dropped_date", pa.int32(), "Hits removed because they are not published before the horizon"),
            Column("dropped_self", pa.int32(), "Hits removed because they are the topic itself"),
        ),
        key=("topic_id", "position"),
        order=("topic_id", "position"),
    )
)

OUTCOMES = declare(
    Table(
        "outcomes",
        "How a system ended on one topic.",
        (
            Column("topic_id", pa.int64(), "corpus_id of the survey"),
            Column("outcome", pa.string(), "`scored`, `empty`, `failed`, `over_budget`, `refused`"),
            Column("note", pa.string(), "Why, when it is not `scored`", nullable=True),
            Column("fallback", pa.bool_(), "A fallback stood in for a failed model call"),
        ),
        key=("topic_id",),
        order=("topic_id",),
    )
)

OUTLINES = declare(
    Table(
        "outlines",
        "The outline that a system wrote for a topic's survey while it searched.",
        (
            Column("topic_id", pa.int64(), "corpus_id of the survey"),
            Column("outline", pa.string(), "Markdown headings"),
        ),
        key=("topic_id",),
        order=("topic_id",),
    )
)
