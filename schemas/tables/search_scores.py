"""Scores of search engines by a judge's judgments."""

from typing import Annotated, NamedTuple

import pyarrow as pa

from schemas.table import Column, Table, declare

_ENGINE = Column(pa.string(), "Name of the engine in results")
_MEASURE = Column(
    pa.string(), "`mean_10`, `ndcg_10`, `high_10`, `mean_returned_10`, `coverage_10` ...: measure and cutoff"
)


class SearchScoreRow(NamedTuple):
    """One measure of one engine on one query."""

    engine: Annotated[str, _ENGINE]
    query_key: Annotated[str, Column(pa.string(), "The query")]
    measure: Annotated[str, _MEASURE]
    value: Annotated[float | None, Column(pa.float64(), "Null: nothing of it was judged, so it has no value")]


SEARCH_SCORES = declare(Table("search_scores", SearchScoreRow, key=("engine", "query_key", "measure")))


class SearchSummaryRow(NamedTuple):
    """One measure of an engine over a group of queries."""

    engine: Annotated[str, _ENGINE]
    measure: Annotated[str, _MEASURE]
    group: Annotated[str, Column(pa.string(), "`all`, `test_set: <name>`, or `<dimension>: <value>`")]
    queries: Annotated[int, Column(pa.int32(), "Queries of the group")]
    valued: Annotated[int, Column(pa.int32(), "Of those, queries with a value: the mean is over them")]
    answered: Annotated[
        int, Column(pa.int32(), "Queries for which the engine returned papers; on the others it counts 0")
    ]
    mean: Annotated[float | None, Column(pa.float64(), "Over the queries with a value")]
    low: Annotated[float | None, Column(pa.float64(), "Lower end of the 95 % bootstrap interval over queries")]
    high: Annotated[float | None, Column(pa.float64(), "Upper end")]


SEARCH_SUMMARIES = declare(Table("search_summaries", SearchSummaryRow, key=("engine", "measure", "group")))


class SearchComparisonRow(NamedTuple):
    """Two engines on the same queries under one measure."""

    measure: Annotated[str, _MEASURE]
    engine: Annotated[str, Column(pa.string(), "The first engine")]
    other: Annotated[str, Column(pa.string(), "The second engine")]
    queries: Annotated[int, Column(pa.int32(), "Queries on which both have a value")]
    difference: Annotated[float, Column(pa.float64(), "Mean of first less second")]
    low: Annotated[float, Column(pa.float64(), "Lower end of its 95 % bootstrap interval")]
    high: Annotated[float, Column(pa.float64(), "Upper end")]
    p_value: Annotated[float, Column(pa.float64(), "Two-sided, of the paired randomisation test")]
    p_holm: Annotated[float, Column(pa.float64(), "Corrected for all pairs of engines under this measure")]
    tied: Annotated[bool, Column(pa.bool_(), "The corrected p-value is 0.05 or more: the engines cannot be told apart")]
    wins: Annotated[int, Column(pa.int32(), "Queries on which the first is better")]
    ties: Annotated[int, Column(pa.int32(), "Queries on which both are equal")]
    losses: Annotated[int, Column(pa.int32(), "Queries on which the first is worse")]


SEARCH_COMPARISONS = declare(Table("search_comparisons", SearchComparisonRow, key=("measure", "engine", "other")))
