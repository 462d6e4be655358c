"""What a search engine returned, how it ended on each query, and the replies of services on the web."""

from typing import Annotated, NamedTuple

import pyarrow as pa

from schemas.table import Column, Table, declare


class SearchResultRow(NamedTuple):
    """One paper that an engine returned for a query."""

    query_key: Annotated[str, Column(pa.string(), "The query")]
    engine: Annotated[str, Column(pa.string(), "Name of the engine in results")]
    rank: Annotated[int, Column(pa.int32(), "Place in the list, from 1")]
    doc_key: Annotated[
        str, Column(pa.string(), "What names the paper: `doi:`, `arxiv:`, `corpusid:` ..., else its title")
    ]
    title: Annotated[str, Column(pa.string(), "As the engine gives it")]
    abstract: Annotated[str | None, Column(pa.string(), "As the engine gives it")]
    url: Annotated[str | None, Column(pa.string(), "Where a person can read it")]
    score: Annotated[float | None, Column(pa.float64(), "The engine's own")]


SEARCH_RESULTS = declare(Table("search_results", SearchResultRow, key=("engine", "query_key", "rank")))


class SearchOutcomeRow(NamedTuple):
    """How an engine ended on one query."""

    query_key: Annotated[str, Column(pa.string(), "The query")]
    engine: Annotated[str, Column(pa.string(), "Name of the engine in results")]
    outcome: Annotated[str, Column(pa.string(), "`scored` (it returned papers), `empty`, `failed`")]
    returned: Annotated[int, Column(pa.int32(), "Papers returned")]
    note: Annotated[str | None, Column(pa.string(), "Why, when it failed")]


SEARCH_OUTCOMES = declare(Table("search_outcomes", SearchOutcomeRow, key=("engine", "query_key")))


class WebReplyRow(NamedTuple):
    """One reply of a service on the web, as received."""

    key: Annotated[str, Column(pa.string(), "Digest of the question")]
    question: Annotated[str, Column(pa.string(), "Address, parameters and body; no keys")]
    body: Annotated[bytes, Column(pa.large_binary(), "As received")]
    asked_at: Annotated[str, Column(pa.string(), "UTC, ISO 8601")]


WEB_REPLIES = declare(Table("web_replies", WebReplyRow, key=("key",)))
