"""The scores stage: who enters which mean, intervals, groups."""

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
import pytest

from schemas.errors import StageFailed
from schemas.manifest import Ref
from schemas.tables.runs import OUTCOMES, RUNS
from tasks.metrics.ranking import evaluate_run
from tasks.ranking.answers import SystemSettings
from tasks.ranking.scores import ScoreSettings, scores
from tasks.stats.intervals import bootstrap_intervals
from tasks.store.dataset import Dataset
from tasks.store.store import Request, Store
from tests.published import publish, publish_topics, topic_row

TAG = "title.bm25.abstract"
QRELS = {1: {11: 2, 12: 1}, 2: {21: 1}, 3: {31: 2, 32: 2}, 4: {41: 1, 42: 2}}
RUN = {1: [11, 99, 12], 2: [21], 4: [98]}
OUTCOME = {1: "scored", 2: "scored", 3: "failed", 4: "scored"}
FIELDS = {1: ["Biology"], 2: ["Biology", "Physics"], 3: ["Physics"], 4: []}


def publish_run(
    store: Store, run: Mapping[int, Sequence[int]], outcomes: Mapping[int, str], fallbacks: Sequence[int] = ()
) -> Ref:
    rows = [
        {"topic_id": topic, "corpus_id": document, "rank": rank, "score": float(-rank), "tag": TAG}
        for topic, documents in run.items()
        for rank, document in enumerate(documents, 1)
    ]
    ended = [{"topic_id": t, "outcome": o, "note": None, "fallback": t in fallbacks} for t, o in outcomes.items()]
    made = SystemSettings(baseline="title", baseline_version=1, retriever="bm25", field="abstract", tag=TAG)
    return publish(store, "run", {"part": (RUNS, rows), "outcomes": (OUTCOMES, ended)}, made)


@pytest.fixture
def topics(store: Store) -> Ref:
    rows = [topic_row(topic, fields=FIELDS[topic]) for topic in QRELS]
    return publish_topics(store, [*rows, topic_row(5, outcome="none_left")], QRELS)


def score(store: Store, topics: Ref, run: Ref, **settings: int | None) -> Dataset:
    request = Request(scores, ScoreSettings.model_validate(settings), {"run": run, "topics": topics})
    return store.open(store.build(request).ref)


def summary(dataset: Dataset, measure: str, group: str = "all", labels: str = "graded") -> dict[str, object]:
    frame = pl.read_parquet(dataset.files("summaries"))
    return frame.filter(pl.col("measure") == measure, pl.col("group") == group, pl.col("labels") == labels).row(
        0, named=True
    )


def test_values_are_those_of_evaluate_run(store: Store, topics: Ref) -> None:
    dataset = score(store, topics, publish_run(store, RUN, OUTCOME))
    found = pl.read_parquet(dataset.files())
    hits = {t: [(d, -float(r)) for r, d in enumerate(documents)] for t, documents in RUN.items()}
    for labels in ("graded", "influential"):
        expected = evaluate_run(QRELS, hits, labels)
        for topic, values in expected["per_topic"].items():
            rows = found.filter(pl.col("topic_id") == topic, pl.col("labels") == labels)
            assert dict(rows.select("measure", "value").iter_rows()) == values
        assert expected["mean_all"] is not None and expected["mean_evaluated"] is not None
        for measure in expected["mean_all"]:
            row = summary(dataset, measure, labels=labels)
            assert row["mean"] == pytest.approx(expected["mean_all"][measure])
            assert row["mean_evaluated"] == pytest.approx(expected["mean_evaluated"][measure])


def test_missing_counts_zero_and_not_evaluable_is_null(store: Store, topics: Ref) -> None:
    found = pl.read_parquet(score(store, topics, publish_run(store, RUN, OUTCOME)).files())
    values = {(t, labels): value for _, t, labels, m, value in found.iter_rows() if m == "recall_100"}
    assert values == {
        (1, "graded"): 1.0,
        (2, "graded"): 1.0,
        (3, "graded"): 0.0,
        (4, "graded"): 0.0,
        (1, "influential"): 1.0,
        (2, "influential"): None,
        (3, "influential"): 0.0,
        (4, "influential"): 0.0,
    }


def test_summaries_count_topics_and_coverage_by_group(store: Store, topics: Ref) -> None:
    dataset = score(store, topics, publish_run(store, RUN, OUTCOME))
    counts = {
        (group, labels): tuple(summary(dataset, "P_10", group, labels)[name] for name in ("topics", "covered"))
        for group in ("all", "field:Biology", "field:Physics")
        for labels in ("graded", "influential")
    }
    assert counts == {
        ("all", "graded"): (4, 3),
        ("all", "influential"): (3, 2),
        ("field:Biology", "graded"): (2, 2),
        ("field:Biology", "influential"): (1, 1),
        ("field:Physics", "graded"): (2, 1),
        ("field:Physics", "influential"): (1, 0),
    }
    only_failed = summary(dataset, "P_10", "field:Physics", "influential")
    assert only_failed["mean"] == 0 and only_failed["mean_evaluated"] is None


def test_means_come_with_and_without_fallbacks(store: Store, topics: Ref) -> None:
    dataset = score(store, topics, publish_run(store, RUN, OUTCOME, fallbacks=[2, 3]))
    found = summary(dataset, "recall_100")
    assert (found["mean"], found["fallbacks"], found["mean_without_fallbacks"]) == (0.5, 2, 0.5)
    physics = summary(dataset, "recall_100", "field:Physics")
    assert (physics["topics"], physics["fallbacks"], physics["mean_without_fallbacks"]) == (2, 2, None)
    influential = summary(dataset, "recall_100", labels="influential")
    assert (influential["fallbacks"], influential["mean_without_fallbacks"]) == (1, 0.5)


def test_intervals_are_those_of_the_group_alone(store: Store, topics: Ref) -> None:
    row = summary(score(store, topics, publish_run(store, RUN, OUTCOME), seed=9), "recall_10")
    expected = bootstrap_intervals(np.array([[1.0], [1.0], [0.0], [0.0]]), 9)
    assert (row["low"], row["high"]) == (expected.low[0], expected.high[0])


def test_limit_takes_the_first_kept_topics(store: Store, topics: Ref) -> None:
    dataset = score(store, topics, publish_run(store, {1: [11]}, {1: "scored", 2: "empty"}), limit_topics=2)
    assert summary(dataset, "recall_10")["mean"] == 0.25
    assert pl.read_parquet(dataset.files())["topic_id"].unique().to_list() == [1, 2]


def test_a_run_for_other_topics_is_refused(store: Store, topics: Ref) -> None:
    with pytest.raises(StageFailed, match=r"made for 2 topics, .* ask for 4"):
        score(store, topics, publish_run(store, RUN, {1: "scored", 2: "empty"}))


def test_no_topic_at_all_gives_empty_means(store: Store) -> None:
    dataset = score(store, publish_topics(store, [], {}), publish_run(store, {}, {}))
    row = summary(dataset, "recall_100")
    assert (row["topics"], row["mean"], row["low"], row["mean_evaluated"]) == (0, None, None, None)
