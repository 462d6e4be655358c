"""Scores of engines: against a DuckDB query, against ir_measures, and by hand; groups, comparisons, correction."""

import random
from pathlib import Path
from typing import Any

import duckdb
import ir_measures
import pytest
from ir_measures import nDCG

from schemas.llm import ModelName
from schemas.search import EngineSettings, JudgeSettings
from schemas.tables.judgments import JUDGMENTS, SEARCH_POOL
from schemas.tables.model_calls import MODEL_CALLS, ModelCallRow
from schemas.tables.search_queries import SEARCH_QUERIES
from schemas.tables.search_results import SEARCH_OUTCOMES, SEARCH_RESULTS
from tasks.exports.search_trec import write_search_trec
from tasks.search.scores import SearchScoreSettings, search_scores
from tasks.store.dataset import Dataset
from tasks.store.store import Request, Store
from tests.published import publish

ENGINES = ("good", "bad", "odd")
LISTED = ("mean_10", "high_10", "mean_returned_10", "high_returned_10")
Levels = dict[str, dict[str, int | None]]
Lists = dict[str, dict[str, list[str]]]


def publish_search(store: Store, levels: Levels, lists: Lists) -> tuple[Dataset, Dataset]:
    """Judgments and scores, from levels by query and paper and from lists by engine and query."""
    queries = publish(
        store,
        "search_queries",
        {
            "part": (
                SEARCH_QUERIES,
                [
                    {
                        "query_key": key,
                        "test_set": key.partition("/")[0],
                        "text": "words",
                        "dimensions": [{"name": "length", "value": "Short" if key[-1] in "02468" else "Long"}],
                    }
                    for key in levels
                ],
            )
        },
    )
    judged = [
        {
            "query_key": key,
            "doc_key": document,
            "judge": "j",
            "model": "m",
            "attempt": attempt,
            "outcome": "failed" if level is None else "scored",
            "score": level if attempt == 0 else 0,
            "confidence": 5,
            "reason": None,
            "note": None,
            "title_only": False,
            "title": document,
            "abstract": None,
        }
        for key, documents in levels.items()
        for document, level in documents.items()
        for attempt in range(2)
    ]
    places = [
        {"query_key": key, "engine": engine, "rank": rank, "doc_key": document}
        for engine, of_query in lists.items()
        for key, documents in of_query.items()
        for rank, document in enumerate(documents, 1)
    ]
    chosen = {"judge": "paper_lantern", "judge_version": 1, "model": ModelName(provider="p", model="m"), "tag": "j"}
    settings = JudgeSettings.model_validate({**chosen, "engines": tuple(lists), "attempts": 2})
    calls = [ModelCallRow(key, 1, "judge@1", ["k"], "ok", None, 100, 10, 0.25)._asdict() for key in levels]
    tables = {"part": (JUDGMENTS, judged), "pool": (SEARCH_POOL, places), "calls": (MODEL_CALLS, calls)}
    judgments = publish(store, "judge", tables, settings)
    inputs = {"queries": queries, "judgments": judgments}
    for engine, of_query in lists.items():
        outcomes = [
            {"query_key": key, "engine": engine, "outcome": "scored" if of_query.get(key) else "failed"}
            | {"returned": len(of_query.get(key, ())), "note": None}
            for key in levels
        ]
        chosen = EngineSettings(engine="file", engine_version=1, tag=engine)
        hits = [
            {"query_key": key, "engine": engine, "rank": rank, "doc_key": document, "title": document}
            for key, documents in of_query.items()
            for rank, document in enumerate(documents, 1)
        ]
        results: dict[str, Any] = {"part": (SEARCH_RESULTS, hits), "outcomes": (SEARCH_OUTCOMES, outcomes)}
        inputs[f"results:{engine}"] = publish(store, "search_results", results, chosen)
    built = store.build(Request(search_scores, SearchScoreSettings(resamples=300), inputs))
    return store.open(judgments), store.open(built.ref)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> tuple[Dataset, Dataset]:
    """60 queries, three engines of different quality, failed judgments, empty lists, a query without judgment."""
    chance = random.Random(7)
    levels: Levels = {}
    lists: Lists = {engine: {} for engine in ENGINES}
    for number in range(60):
        key = f"{'ai' if number < 30 else 'other'}/q{number}"
        documents = [f"doi:10.1/{number}.{i}" for i in range(30)]
        levels[key] = {d: None if chance.random() < 0.1 or number == 3 else chance.randint(0, 5) for d in documents}
        best = sorted(documents, key=lambda d: -(levels[key][d] or 0) + chance.random())
        lists["good"][key] = best[:20]
        lists["bad"][key] = best[::-1][: chance.randint(0, 20)]
        lists["odd"][key] = chance.sample(documents, 20)
    return publish_search(Store(tmp_path_factory.mktemp("drawn")), levels, lists)


def means(scores: Dataset, measure: str, group: str = "all") -> dict[str, float | None]:
    rows = scores.table("summaries").to_pylist()
    return {row["engine"]: row["mean"] for row in rows if (row["measure"], row["group"]) == (measure, group)}


def test_scores_equal_a_query_on_the_judgments(drawn: tuple[Dataset, Dataset]) -> None:
    judgments, scores = drawn
    found = duckdb.sql(f"""
        WITH judged AS (
          SELECT engine, query_key, avg(20 * score) AS mean_returned, avg((score >= 4)::INT) AS high_returned,
                 sum(20 * score) / (10 - count(*) + count(score)) AS mean,
                 sum((score >= 4)::INT) / (10 - count(*) + count(score)) AS high, count(score) / count(*) AS coverage
          FROM read_parquet('{judgments.folder}/pool-*.parquet') p
          JOIN read_parquet('{judgments.folder}/part-*.parquet') j USING (query_key, doc_key)
          WHERE rank <= 10 AND attempt = 0 GROUP BY ALL),
        every AS (SELECT DISTINCT a.engine, b.query_key FROM judged a, judged b)
        SELECT engine, avg(CASE WHEN coverage IS NULL THEN 0 ELSE mean END),
               avg(CASE WHEN coverage IS NULL THEN 0 ELSE high END),
               avg(CASE WHEN coverage IS NULL THEN 0 ELSE mean_returned END),
               avg(CASE WHEN coverage IS NULL THEN 0 ELSE high_returned END), avg(coverage)
        FROM every LEFT JOIN judged USING (engine, query_key) GROUP BY engine""").fetchall()
    for place, measure in enumerate((*LISTED, "coverage_10"), 1):
        assert means(scores, measure) == pytest.approx({row[0]: row[place] for row in found}), measure


def test_ndcg_equals_ir_measures_on_the_exported_files(drawn: tuple[Dataset, Dataset], tmp_path: Path) -> None:
    judgments, scores = drawn
    paths = {path.name: path for path in write_search_trec(judgments, tmp_path)}
    qrels = list(ir_measures.read_trec_qrels(str(paths["qrels.txt"])))
    rows = scores.table().to_pylist()
    for k in (1, 5, 10, 20):
        for engine in ENGINES:
            run = list(ir_measures.read_trec_run(str(paths[f"{engine}.txt"])))
            told = {
                value.query_id: value.value for value in ir_measures.iter_calc([nDCG(judged_only=True) @ k], qrels, run)
            }
            ours = {
                row["query_key"]: row["value"]
                for row in rows
                if (row["engine"], row["measure"]) == (engine, f"ndcg_{k}") and row["value"] is not None
            }
            assert len(ours) >= 57
            assert ours == pytest.approx({key: told.get(key, 0.0) for key in ours})


def test_engines_are_told_apart_where_they_differ(drawn: tuple[Dataset, Dataset]) -> None:
    _, scores = drawn
    rows = [row for row in scores.table("comparisons").to_pylist() if row["measure"] == "ndcg_10"]
    pairs = {(row["engine"], row["other"]): row for row in rows}
    assert set(pairs) == {("good", "bad"), ("good", "odd"), ("bad", "odd")}
    assert not pairs["good", "bad"]["tied"]
    assert pairs["good", "bad"]["difference"] > 0
    assert all(row["p_holm"] >= row["p_value"] and row["tied"] == (row["p_holm"] >= 0.05) for row in rows)


def test_values_by_hand(tmp_path: Path) -> None:
    """A place without a paper counts 0, a failed judgment for nothing; an unjudged query is left out."""
    levels: Levels = {
        "t/q0": {"a": 5, "b": None, "c": 1, "d": 4},
        "t/q1": {"a": 2, "b": 4},
        "t/q2": {"a": None},
    }
    lists: Lists = {
        "one": {"t/q0": ["b", "a", "c"], "t/q1": ["b"], "t/q2": ["a"]},
        "two": {"t/q0": ["a", "d"]},
    }
    _, scores = publish_search(Store(tmp_path), levels, lists)
    value = {(r["engine"], r["query_key"], r["measure"]): r["value"] for r in scores.table().to_pylist()}
    assert value["one", "t/q0", "mean_1"] is None
    assert (value["one", "t/q0", "mean_5"], value["one", "t/q0", "mean_returned_5"]) == (120 / 4, 60)
    assert (value["one", "t/q0", "high_5"], value["one", "t/q0", "high_returned_5"]) == (1 / 4, 0.5)
    assert value["one", "t/q0", "coverage_5"] == pytest.approx(2 / 3)
    assert value["two", "t/q0", "ndcg_5"] == pytest.approx(1.0 / (1 + 0.5 * 1 / (5 + 4 / 1.584962500721156)), rel=1e-9)
    assert (value["two", "t/q1", "mean_5"], value["two", "t/q1", "coverage_5"]) == (0, None)
    assert value["one", "t/q2", "mean_5"] is None
    rows = {(r["engine"], r["measure"], r["group"]): r for r in scores.table("summaries").to_pylist()}
    one = rows["one", "mean_5", "all"]
    assert (one["mean"], one["queries"], one["valued"], one["answered"]) == ((30 + 80 / 5) / 2, 3, 2, 3)
    assert rows["one", "mean_returned_5", "all"]["mean"] == 70
    assert rows["two", "mean_5", "all"]["mean"] == pytest.approx((100 + 80) / 5 / 3)
    assert rows["two", "mean_returned_5", "all"]["mean"] == 30, "q1 and q2 count 0: it returned nothing"
    assert rows["two", "mean_5", "all"]["answered"] == 1
    assert {group for _, _, group in rows} == {"all", "test_set: t", "length: Short", "length: Long"}
    assert rows["one", "mean_5", "length: Long"]["queries"] == 1


def test_one_excellent_paper_is_no_better_than_a_full_list(tmp_path: Path) -> None:
    levels: Levels = {"t/q0": {f"d{i}": level for i, level in enumerate((5, 4, 4, 3, 3, 3, 2, 2, 1, 1))}}
    lists: Lists = {"short": {"t/q0": ["d0"]}, "full": {"t/q0": list(levels["t/q0"])}}
    _, scores = publish_search(Store(tmp_path), levels, lists)
    assert means(scores, "mean_10") == {"short": 10, "full": 56}
    assert means(scores, "high_10") == {"short": 0.1, "full": 0.3}
    assert means(scores, "mean_returned_10") == {"short": 100, "full": 56}
    compared = {row["measure"] for row in scores.table("comparisons").to_pylist()}
    assert "mean_10" in compared and not any("returned" in measure for measure in compared)
