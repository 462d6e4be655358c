"""The `search_scores` stage: each engine's scores by a judge's judgments, and comparisons of the engines."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from schemas.search import CUTOFFS, HIGH, REPORTED, SearchQuery
from schemas.settings import Settings
from schemas.tables.search_scores import (
    SEARCH_COMPARISONS,
    SEARCH_SCORES,
    SEARCH_SUMMARIES,
    SearchComparisonRow,
    SearchScoreRow,
    SearchSummaryRow,
)
from tasks.metrics.ranking import Judged
from tasks.metrics.ranking.ndcg import ndcg
from tasks.search.judgments import RESULTS, judge
from tasks.search.queries import read_queries
from tasks.stats.intervals import RESAMPLES, Comparison, Values, compare
from tasks.stats.summaries import Members, group_members, summarize
from tasks.stats.ties import SIGNIFICANT, holm
from tasks.store.dataset import Dataset
from tasks.store.parquet import write_rows
from tasks.store.stage import stage
from tasks.store.workspace import Workspace

COMPARED = ("mean", "ndcg", "high")
"""Measures by which engines are compared; coverage tells how much was judged, not how good it is."""


class SearchScoreSettings(Settings):
    """How engines are scored and compared."""

    limit_queries: int | None = Field(default=None, ge=1, description="As the engines': the first of each test set.")
    seed: int = Field(default=42, description="Of the bootstrap over queries and of the randomisation test.")
    resamples: int = Field(default=RESAMPLES, ge=100, description="Of both.")


class EngineScores(NamedTuple):
    """An engine's values.

    Attributes:
        measures: `<measure>_<cutoff>`.
        values: `(n_queries, n_measures)`; NaN where nothing was judged.
        answered: `(n_queries,) bool`, the engine returned papers.
    """

    measures: tuple[str, ...]
    values: Values
    answered: Members


@stage("search_scores", version=2, settings=SearchScoreSettings, after="judge")
def search_scores(work: Workspace[SearchScoreSettings]) -> None:
    """Writes SEARCH_SCORES and, as side tables, SEARCH_SUMMARIES and SEARCH_COMPARISONS.

    Inputs: `queries`, `judgments`, and `results:<tag>` for every engine in them. Of several attempts the first counts.

    `mean` and `high` are over the first k places, and a place that the engine left empty counts 0; `mean_returned` and
    `high_returned` are over the papers that it returned. So an engine that returned nothing for a query, or failed on
    it, scores 0 there. A paper without a valid judgment is left out instead of counting 0; `coverage` is the share of
    returned papers that have a judgment.

    Source: Paper Lantern's benchmark defines the score of one paper for a query, and no score of a list.
    """
    judgments = work.dataset("judgments")
    engines = judgments.manifest.settings(judge).engines
    queries = read_queries(work.dataset("queries"), work.settings.limit_queries)
    for shard in work.pending(["scores"]):
        with shard:
            scores = score_engines(judgments, [query.query_key for query in queries])
            answered = {tag: _answered(work.dataset(RESULTS + tag), queries) for tag in engines}
            found = {tag: scores[tag]._replace(answered=answered[tag]) for tag in engines}
            write_rows(shard.file("part-00000.parquet"), SEARCH_SCORES, _rows(found, queries))
            summaries, comparisons = _summaries(found, queries, work.settings), _comparisons(found, work.settings)
            write_rows(shard.file("summaries-00000.parquet"), SEARCH_SUMMARIES, summaries)
            write_rows(shard.file("comparisons-00000.parquet"), SEARCH_COMPARISONS, comparisons)
            shard.counts.read = shard.counts.kept = len(queries)


def score_engines(judgments: Dataset, query_keys: Sequence[str]) -> dict[str, EngineScores]:
    """Returns the values of every engine on these queries, in their order.

    Args:
        judgments: Dataset of stage `judge`.
        query_keys: Queries that count, including those without a result.
    """
    levels, lists = _levels(judgments), _lists(judgments)
    pooled: dict[str, list[int]] = {}
    for (query_key, _), level in levels.items():
        pooled.setdefault(query_key, []).append(level)
    ideal = [sorted((x for x in pooled.get(key, ()) if x), reverse=True) for key in query_keys]
    pool = judgments.manifest.settings(judge)
    cutoffs = [k for k in CUTOFFS if k <= pool.depth]
    found: dict[str, EngineScores] = {}
    for engine in pool.engines:
        ranked = [[levels.get((key, document)) for document in lists.get((engine, key), ())] for key in query_keys]
        columns = {
            f"{name}_{k}": np.array([measure(places[:k], k) for places in ranked])
            for name, measure in _MEASURES.items()
            for k in cutoffs
        }
        columns |= {f"ndcg_{k}": _ndcg(ranked, ideal, k) for k in cutoffs}
        values = np.column_stack(list(columns.values()))
        found[engine] = EngineScores(tuple(columns), values, np.array([bool(places) for places in ranked], bool))
    return found


def _levels(judgments: Dataset) -> dict[tuple[str, str], int]:
    """Returns the level by query and paper, for papers that have one."""
    rows = judgments.table(columns=["query_key", "doc_key", "attempt", "score"]).to_pylist()
    return {
        (row["query_key"], row["doc_key"]): row["score"]
        for row in rows
        if row["attempt"] == 0 and row["score"] is not None
    }


def _lists(judgments: Dataset) -> dict[tuple[str, str], list[str]]:
    """Returns the papers in the order of their ranks, by engine and query."""
    found: dict[tuple[str, str], list[str]] = {}
    for place in judgments.table("pool").sort_by([("rank", "ascending")]).to_pylist():
        found.setdefault((place["engine"], place["query_key"]), []).append(place["doc_key"])
    return found


Places = Sequence[int | None]
"""Levels of the first places of a list; None where there is no valid judgment."""


def _reported(level: int) -> float:
    return REPORTED * level


def _is_high(level: int) -> float:
    return float(level >= HIGH)


def _over_places(value: Callable[[int], float], places: Places, k: int) -> float:
    """Returns the mean of the judged papers among the first k places, with 0 for each place without a paper."""
    levels = [level for level in places if level is not None]
    if places and not levels:
        return np.nan
    return sum(map(value, levels)) / (k - len(places) + len(levels))


def _over_returned(value: Callable[[int], float], places: Places, _: int) -> float:
    """Returns the mean of the judged papers alone; 0 where the engine returned nothing."""
    return _over_places(value, places, max(1, len(places)))


def _coverage(places: Places, _: int) -> float:
    return sum(level is not None for level in places) / len(places) if places else np.nan


_MEASURES: Mapping[str, Callable[[Places, int], float]] = {
    "mean": partial(_over_places, _reported),
    "high": partial(_over_places, _is_high),
    "mean_returned": partial(_over_returned, _reported),
    "high_returned": partial(_over_returned, _is_high),
    "coverage": _coverage,
}


def _ndcg(ranked: Sequence[Places], ideal: Sequence[list[int]], k: int) -> Values:
    """Returns NDCG of the judged papers of each list; the ideal list holds all judged papers of the query.

    Source: as `tasks.metrics.ranking.ndcg`; papers without judgment are taken out first (Sakai, SIGIR 2007), which
    ir_measures calls `judged_only`.
    """
    condensed = [[level for level in places if level is not None] for places in ranked]
    values = ndcg(Judged(_padded(condensed), _padded(ideal)), k)
    unknown = [bool(places) and not levels for places, levels in zip(ranked, condensed, strict=True)]
    return np.where(unknown, np.nan, values)


def _padded(rows: Sequence[list[int]]) -> NDArray[np.int64]:
    table = np.zeros((len(rows), max(map(len, rows), default=0)), np.int64)
    for row, levels in zip(table, rows, strict=True):
        row[: len(levels)] = levels
    return table


def _answered(results: Dataset, queries: Sequence[SearchQuery]) -> NDArray[np.bool_]:
    outcomes = results.table("outcomes", ["query_key", "outcome"]).to_pylist()
    scored = {row["query_key"] for row in outcomes if row["outcome"] == "scored"}
    return np.array([query.query_key in scored for query in queries], bool)


def _rows(found: Mapping[str, EngineScores], queries: Sequence[SearchQuery]) -> Iterator[SearchScoreRow]:
    for engine, scores in found.items():
        for query, row in zip(queries, scores.values.tolist(), strict=True):
            for measure, value in zip(scores.measures, row, strict=True):
                yield SearchScoreRow(engine, query.query_key, measure, None if np.isnan(value) else value)


def query_groups(queries: Sequence[SearchQuery]) -> dict[str, Members]:
    """Returns the members of each group of queries: all, each test set, each value of each dimension."""
    return group_members(
        [
            (f"test_set: {query.test_set}", *(f"{name}: {value}" for name, value in query.dimensions.items()))
            for query in queries
        ]
    )


def _summaries(
    found: Mapping[str, EngineScores], queries: Sequence[SearchQuery], settings: SearchScoreSettings
) -> Iterator[SearchSummaryRow]:
    for group, members in query_groups(queries).items():
        for engine, scores in found.items():
            values, answered = np.asfortranarray(scores.values[members]), int(scores.answered[members].sum())
            summaries = summarize(values, settings.seed, settings.resamples)
            for measure, (valued, *numbers) in zip(scores.measures, summaries, strict=True):
                yield SearchSummaryRow(engine, measure, group, len(values), valued, answered, *numbers)


def _comparisons(found: Mapping[str, EngineScores], settings: SearchScoreSettings) -> Iterator[SearchComparisonRow]:
    measures = next(iter(found.values())).measures if found else ()
    for place, measure in enumerate(measures):
        if measure.rpartition("_")[0] not in COMPARED:
            continue
        columns = {engine: scores.values[:, place] for engine, scores in found.items()}
        pairs = [(*pair, *told) for pair in combinations(found, 2) if (told := _compare(columns, *pair, settings))]
        corrected = holm([told.p_value for *_, told in pairs])
        for (engine, other, queries, told), p_holm in zip(pairs, corrected, strict=True):
            yield SearchComparisonRow(
                measure, engine, other, queries, p_holm=p_holm, tied=p_holm >= SIGNIFICANT, **told._asdict()
            )


def _compare(
    columns: Mapping[str, Values], engine: str, other: str, settings: SearchScoreSettings
) -> tuple[int, Comparison] | None:
    """Returns the number of queries on which both have a value, and the comparison on them; None without any."""
    both = ~np.isnan(columns[engine]) & ~np.isnan(columns[other])
    if not both.any():
        return None
    return int(both.sum()), compare(columns[engine][both], columns[other][both], settings.seed, settings.resamples)
