"""What judges said of papers that search engines returned."""

from typing import Annotated, NamedTuple

import pyarrow as pa

from schemas.table import Column, Table, declare


class JudgmentRow(NamedTuple):
    """One judgment of one paper for one query."""

    query_key: Annotated[str, Column(pa.string(), "The query")]
    doc_key: Annotated[str, Column(pa.string(), "The paper, as in table `search_pool`")]
    judge: Annotated[str, Column(pa.string(), "Name of the judge in results")]
    model: Annotated[str, Column(pa.string(), "Which model was asked")]
    attempt: Annotated[int, Column(pa.int32(), "Which judging of the same paper, from 0")]
    outcome: Annotated[
        str, Column(pa.string(), "`scored`, `empty` (no text to judge), `failed`, `refused`, `over_budget`")
    ]
    score: Annotated[int | None, Column(pa.int8(), "0 to 5; times 20 it is reported. Null unless `scored`")]
    confidence: Annotated[int | None, Column(pa.int8(), "0 to 10, where the judge is asked for it")]
    reason: Annotated[str | None, Column(pa.string(), "The judge's sentence")]
    note: Annotated[str | None, Column(pa.string(), "Why there is no score")]
    title_only: Annotated[bool, Column(pa.bool_(), "There is no abstract: the title alone was judged")]
    title: Annotated[str, Column(pa.string(), "As judged")]
    abstract: Annotated[str | None, Column(pa.string(), "As judged")]


JUDGMENTS = declare(Table("judgments", JudgmentRow, key=("judge", "query_key", "doc_key", "attempt")))


class SearchPoolRow(NamedTuple):
    """One place of an engine's list, repeated papers taken out."""

    query_key: Annotated[str, Column(pa.string(), "The query")]
    engine: Annotated[str, Column(pa.string(), "Name of the engine in results")]
    rank: Annotated[int, Column(pa.int32(), "Place among the different papers of the list, from 1")]
    doc_key: Annotated[str, Column(pa.string(), "The paper: one key whichever engine returned it")]


SEARCH_POOL = declare(Table("search_pool", SearchPoolRow, key=("engine", "query_key", "rank")))
