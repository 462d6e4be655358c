"""Scores of search engines by a judge's judgments."""

import pyarrow as pa

from schemas.table import Column, Table, declare

_ENGINE = Column("engine", pa.string(), "Name of the engine in results")
_MEASURE = Column("measure", pa.string(), "`mean_10`, `ndcg_10`, `high_10`, `coverage_10` ...: measure and cutoff")

SEARCH_SCORES = declare(
    Table(
        "search_scores",
        "One measure of one engine on one query.",
        (
            _ENGINE,
            Column("query_key", pa.string(), "The query"),
            _MEASURE,
            Column("value", pa.float64(), "Null: nothing of it was judged, so it has no value", nullable=True),
        ),
        key=("engine", "query_key", "measure"),
    )
)

SEARCH_SUMMARIES = declare(
    Table(
        "search_summaries",
        "One measure of an engine over a group of queries.",
        (
            _ENGINE,
            _MEASURE,
            Column("group", pa.string(), "`all`, `test_set: <name>`, or `<dimension>: <value>`"),
            Column("queries", pa.int32(), "Queries of the group"),
            Column("valued", pa.int32(), "Of those, queries with a value: the mean is over them"),
            Column("answered", pa.int32(), "Queries for which the engine returned papers; on the others it counts 0"),
            Column("mean", pa.float64(), "Over the queries with a value", nullable=True),
            Column("low", pa.float64(), "Lower end of the 95 % bootstrap interval over queries", nullable=True),
            Column("high", pa.float64(), "Upper end", nullable=True),
        ),
        key=("engine", "measure", "group"),
    )
)

SEARCH_COMPARISONS = declare(
    Table(
        "search_comparisons",
        "Two engines on the same queries under one measure.",
        (
            _MEASURE,
            Column("engine", pa.string(), "The first engine"),
            Column("other", pa.string(), "The second engine"),
            Column("queries", pa.int32(), "Queries on which both have a value"),
            Column("difference", pa.float64(), "Mean of first less second"),
            Column("low", pa.float64(), "Lower end of its 95 % bootstrap interval"),
            Column("high", pa.float64(), "Upper end"),
            Column("p_value", pa.float64(), "Two-sided, of the paired randomisation test"),
            Column("p_holm", pa.float64(), "Corrected for all pairs of engines under this measure"),
            Column("tied", pa.bool_(), "The corrected p-value is 0.05 or more: the engines cannot be told apart"),
            Column("wins", pa.int32(), "Queries on which the first is better"),
            Column("ties", pa.int32(), "Queries on which both are equal"),
            Column("losses", pa.int32(), "Queries on which the first is worse"),
        ),
        key=("measure", "engine", "other"),
    )
)
