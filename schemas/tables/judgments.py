"""What judges said of papers that search engines returned."""

import pyarrow as pa

from schemas.table import Column, Table, declare

JUDGMENTS = declare(
    Table(
        "judgments",
        "One judgment of one paper for one query.",
        (
            Column("query_key", pa.string(), "The query"),
            Column("doc_key", pa.string(), "The paper, as in table `search_pool`"),
            Column("judge", pa.string(), "Name of the judge in results"),
            Column("model", pa.string(), "Which model was asked"),
            Column("attempt", pa.int32(), "Which judging of the same paper, from 0"),
            Column("outcome", pa.string(), "`scored`, `empty` (no text to judge), `failed`, `refused`, `over_budget`"),
            Column("score", pa.int8(), "0 to 5; times 20 it is reported. Null unless `scored`", nullable=True),
            Column("confidence", pa.int8(), "0 to 10, where the judge is asked for it", nullable=True),
            Column("reason", pa.string(), "The judge's sentence", nullable=True),
            Column("note", pa.string(), "Why there is no score", nullable=True),
            Column("title_only", pa.bool_(), "There is no abstract: the title alone was judged"),
            Column("title", pa.string(), "As judged"),
            Column("abstract", pa.string(), "As judged", nullable=True),
        ),
        key=("judge", "query_key", "doc_key", "attempt"),
    )
)

SEARCH_POOL = declare(
    Table(
        "search_pool",
        "One place of an engine's list, repeated papers taken out.",
        (
            Column("query_key", pa.string(), "The query"),
            Column("engine", pa.string(), "Name of the engine in results"),
            Column("rank", pa.int32(), "Place among the different papers of the list, from 1"),
            Column("doc_key", pa.string(), "The paper: one key whichever engine returned it"),
        ),
        key=("engine", "query_key", "rank"),
    )
)
