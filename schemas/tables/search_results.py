"""What a search engine returned, how it ended on each query, and the replies of services on the web."""

import pyarrow as pa

from schemas.table import Column, Table, declare

SEARCH_RESULTS = declare(
    Table(
        "search_results",
        "One paper that an engine returned for a query.",
        (
            Column("query_key", pa.string(), "The query"),
            Column("engine", pa.string(), "Name of the engine in results"),
            Column("rank", pa.int32(), "Place in the list, from 1"),
            Column("doc_key", pa.string(), "What names the paper: `doi:`, `arxiv:`, `corpusid:` ..., else its title"),
            Column("title", pa.string(), "As the engine gives it"),
            Column("abstract", pa.string(), "As the engine gives it", nullable=True),
            Column("url", pa.string(), "Where a person can read it", nullable=True),
            Column("score", pa.float64(), "The engine's own", nullable=True),
        ),
        key=("engine", "query_key", "rank"),
    )
)

SEARCH_OUTCOMES = declare(
    Table(
        "search_outcomes",
        "How an engine ended on one query.",
        (
            Column("query_key", pa.string(), "The query"),
            Column("engine", pa.string(), "Name of the engine in results"),
            Column("outcome", pa.string(), "`scored` (it returned papers), `empty`, `failed`"),
            Column("returned", pa.int32(), "Papers returned"),
            Column("note", pa.string(), "Why, when it failed", nullable=True),
        ),
        key=("engine", "query_key"),
    )
)

WEB_REPLIES = declare(
    Table(
        "web_replies",
        "One reply of a service on the web, as received.",
        (
            Column("key", pa.string(), "Digest of the question"),
            Column("question", pa.string(), "Address, parameters and body; no keys"),
            Column("body", pa.large_binary(), "As received"),
            Column("asked_at", pa.string(), "UTC, ISO 8601"),
        ),
        key=("key",),
    )
)
