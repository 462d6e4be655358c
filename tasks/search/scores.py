"""The `search_scores` stage: what a judge's judgments say of every engine, and which engines can be told apart."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field

from schemas.search import CUTOFFS, HIGH, REPORTED, SearchQuery
from schemas.settings import Settings
from schemas.table import AnyTable
from schemas.tables.search_scores import SEARCH_COMPARISONS, SEARCH_SCORES, SEARCH_SUMMARIES
from tasks.metrics.ranking import Judged
from tasks.metrics.ranking.ndcg import ndcg
from tasks.search.judgments import RESULTS
from tasks.search.queries import read_queries
from tasks.stats.intervals import RESAMPLES, bootstrap_intervals, compare
from tasks.store.dataset import Dataset
from tasks.store.parquet import write_table
from tasks.store.shard import Shard
from tasks.store.stage import stage
from tasks.store.workspace import Workspace

SIGNIFICANT = 0.05
COMPARED = ("mean", "ndcg", "high")
"""Measures by which engines are compared; coverage says how much was judged, not how good it is."""

Values = NDArray[np.float64]
Row = dict[str, Any]


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
    answered: NDArray[np.bool_]


@stage("search_scores", version=1, settings=SearchScoreSettings, after="judge")
def search_scores(work: Workspace[SearchScoreSettings]) -> None:
    """Writes SEARCH_SCORES and, as side tables, SEARCH_SUMMARIES and SEARCH_COMPARISONS.

    Inputs: `queries`, `judgments`, and `results:<tag>` for every engine in them. Of several attempts the first counts.

    An engine that returned nothing for a query, or failed on it, has 0 there. A paper without a valid judgment counts
    for nothing: neither as 0 nor as a place of the list; `coverage` is the share of places that have a judgment.
    """
    judgments = work.dataset("judgments")
    engines: list[str] = judgments.manifest.parameters["engines"]
    queries = read_queries(work.dataset("queries"), work.settings.limit_queries)
    for shard in work.pending(["scores"]):
        with shard:
            scores = score_engines(judgments, [query.query_key for query in queries])
            answered = {tag: _answered(work.dataset(RESULTS + tag), queries) for tag in engines}
            found = {tag: scores[tag]._replace(answered=answered[tag]) for tag in engines}
            _write(shard, "part", SEARCH_SCORES, list(_rows(found, queries)))
            _write(shard, "summaries", SEARCH_SUMMARIES, list(_summaries(found, queries, work.settings)))
            _write(shard, "comparisons", SEARCH_COMPARISONS, list(_comparisons(found, work.settings)))
            shard.counts.read = shard.counts.kept = len(queries)


def score_engines(judgments: Dataset, query_keys: Sequence[str]) -> dict[str, EngineScores]:
    """Every engine's values on these queries, in their order.

    Args:
        judgments: Dataset of stage `judge`.
        query_keys: Queries that count, those without a result too.
    """
    levels, lists = _levels(judgments), _lists(judgments)
    pooled: dict[str, list[int]] = {}
    for (query_key, _), level in levels.items():
        pooled.setdefault(query_key, []).append(level)
    ideal = [sorted((x for x in pooled.get(key, ()) if x), reverse=True) for key in query_keys]
    cutoffs = [k for k in CUTOFFS if k <= judgments.manifest.parameters["depth"]]
    found: dict[str, EngineScores] = {}
    for engine in judgments.manifest.parameters["engines"]:
        ranked = [[levels.get((key, document)) for document in lists.get((engine, key), ())] for key in query_keys]
        columns = {
            f"{name}_{k}": np.array([measure(places[:k]) for places in ranked])
            for name, measure in _MEASURES.items()
            for k in cutoffs
        }
        columns |= {f"ndcg_{k}": _ndcg(ranked, ideal, k) for k in cutoffs}
        values = np.column_stack(list(columns.values()))
        found[engine] = EngineScores(tuple(columns), values, np.array([bool(places) for places in ranked], bool))
    return found


def _levels(judgments: Dataset) -> dict[tuple[str, str], int]:
    """Level by query and paper, for papers that have one."""
    rows = judgments.table(columns=["query_key", "doc_key", "attempt", "score"]).to_pylist()
    return {
        (row["query_key"], row["doc_key"]): row["score"]
        for row in rows
        if row["attempt"] == 0 and row["score"] is not None
    }


def _lists(judgments: Dataset) -> dict[tuple[str, str], list[str]]:
    """Papers in the order of their ranks, by engine and query."""
    found: dict[tuple[str, str], list[str]] = {}
    for place in judgments.table("pool").sort_by([("rank", "ascending")]).to_pylist():
        found.setdefault((place["engine"], place["query_key"]), []).append(place["doc_key"])
    return found


Places = Sequence[int | None]
"""Levels of the first places of a list; None where there is no valid judgment."""


def _mean(places: Places) -> float:
    return _over_judged(places, lambda levels: REPORTED * sum(levels) / len(levels))


def _high(places: Places) -> float:
    return _over_judged(places, lambda levels: sum(level >= HIGH for level in levels) / len(levels))


def _over_judged(places: Places, value: Callable[[list[int]], float]) -> float:
    if not places:
        return 0.0
    levels = [level for level in places if level is not None]
    return value(levels) if levels else np.nan


def _coverage(places: Places) -> float:
    return sum(level is not None for level in places) / len(places) if places else np.nan


_MEASURES: Mapping[str, Callable[[Places], float]] = {"mean": _mean, "high": _high, "coverage": _coverage}


def _ndcg(ranked: Sequence[Places], ideal: Sequence[list[int]], k: int) -> Values:
    """NDCG of the judged papers of each list over all judged papers of the query, whoever returned them.

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


def _rows(found: Mapping[str, EngineScores], queries: Sequence[SearchQuery]) -> Iterator[Row]:
    for engine, scores in found.items():
        for query, row in zip(queries, scores.values.tolist(), strict=True):
            for measure, value in zip(scores.measures, row, strict=True):
                known = None if np.isnan(value) else value
                yield {"engine": engine, "query_key": query.query_key, "measure": measure, "value": known}


def query_groups(queries: Sequence[SearchQuery]) -> dict[str, NDArray[np.bool_]]:
    """Members of every group, `(n_queries,)`: all, each test set, each value of each dimension."""
    names = [
        {"all", f"test_set: {query.test_set}", *(f"{name}: {value}" for name, value in query.dimensions.items())}
        for query in queries
    ]
    groups = sorted({name for of_query in names for name in of_query} - {"all"})
    return {group: np.array([group in of_query for of_query in names], bool) for group in ["all", *groups]}


def _summaries(
    found: Mapping[str, EngineScores], queries: Sequence[SearchQuery], settings: SearchScoreSettings
) -> Iterator[Row]:
    for group, members in query_groups(queries).items():
        for engine, scores in found.items():
            values, answered = scores.values[members], int(scores.answered[members].sum())
            ends = _intervals(values, settings)
            for place, measure in enumerate(scores.measures):
                known = values[:, place][~np.isnan(values[:, place])]
                yield {
                    "engine": engine,
                    "measure": measure,
                    "group": group,
                    "queries": len(values),
                    "valued": len(known),
                    "answered": answered,
                    "mean": known.mean() if len(known) else None,
                    "low": ends[place][0],
                    "high": ends[place][1],
                }


def _intervals(values: Values, settings: SearchScoreSettings) -> dict[int, tuple[float | None, float | None]]:
    """Ends of the interval of every measure; measures with values on the same queries share their resamples."""
    known = ~np.isnan(values)
    ends: dict[int, tuple[float | None, float | None]] = {}
    for mask in {known[:, place].tobytes(): known[:, place] for place in range(values.shape[1])}.values():
        places = [place for place in range(values.shape[1]) if (known[:, place] == mask).all()]
        if not mask.any():
            ends |= dict.fromkeys(places, (None, None))
            continue
        low, high = bootstrap_intervals(values[mask][:, places], settings.seed, settings.resamples)
        ends |= {place: (float(a), float(b)) for place, a, b in zip(places, low, high, strict=True)}
    return ends


def _comparisons(found: Mapping[str, EngineScores], settings: SearchScoreSettings) -> Iterator[Row]:
    measures = next(iter(found.values())).measures if found else ()
    for place, measure in enumerate(measures):
        if measure.partition("_")[0] in COMPARED:
            rows = [
                row
                for first, second in combinations(found, 2)
                if (row := _compare(found, (first, second), place, settings))
            ]
            corrected = holm([row["p_value"] for row in rows])
            for row, p_holm in zip(rows, corrected, strict=True):
                yield {"measure": measure, **row, "p_holm": p_holm, "tied": p_holm >= SIGNIFICANT}


def _compare(
    found: Mapping[str, EngineScores], pair: tuple[str, str], place: int, settings: SearchScoreSettings
) -> Row | None:
    """The comparison on the queries where both have a value; None when there is none."""
    first, second = (found[engine].values[:, place] for engine in pair)
    both = ~np.isnan(first) & ~np.isnan(second)
    if not both.any():
        return None
    told = compare(first[both], second[both], settings.seed, settings.resamples)
    return {"engine": pair[0], "other": pair[1], "queries": int(both.sum()), **told._asdict()}


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values corrected for as many tests as there are, in the same order.

    Source: Holm, Scandinavian Journal of Statistics 6(2), 1979.
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    corrected, most = [0.0] * len(p_values), 0.0
    for done, place in enumerate(order):
        most = max(most, min(1.0, (len(p_values) - done) * p_values[place]))
        corrected[place] = most
    return corrected


def _write(shard: Shard, prefix: str, table: AnyTable, rows: list[Row]) -> None:
    write_table(shard.file(f"{prefix}-00000.parquet"), table, pa.Table.from_pylist(rows, table.arrow))
