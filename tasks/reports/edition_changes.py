"""What changed between two editions: the topics, and the scores on unchanged ones; scores on a slice of topics."""

from collections.abc import Collection, Iterator
from datetime import date
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl

from tasks.ranking.evaluated_topics import evaluated_topics, read_qrels
from tasks.ranking.scores import scores as scores_stage
from tasks.stats.intervals import compare
from tasks.stats.summaries import Summary, summarize
from tasks.store.dataset import Dataset

DESCRIBED = ("title", "horizon")
"""Columns of a topic that a system sees or that limit what it may find."""


class TopicChange(NamedTuple):
    """One topic that differs between the editions; `what` says which part changed or why it is gone."""

    topic_id: int
    title: str
    change: Literal["new", "changed", "gone"]
    what: str


class ScoreChange(NamedTuple):
    """A measure of a run in two editions.

    Attributes:
        measure: Its name.
        topics: The unchanged topics that can be evaluated in both.
        before: Mean over them in the earlier edition; None without topics.
        after: Mean over them in the later one.
        difference: Mean of (after - before), with the ends of its 95 % paired bootstrap interval.
        low: Lower end.
        high: Upper end.
        new: The measure over the topics that only the later edition has, or has changed.
    """

    measure: str
    topics: int
    before: float | None
    after: float | None
    difference: float | None
    low: float | None
    high: float | None
    new: Summary


def compare_topics(old: Dataset, new: Dataset) -> list[TopicChange]:
    """Returns the evaluated topics that are new, changed (title, horizon or judgments) or gone, by topic_id.

    Args:
        old: Dataset of stage `topics` of the earlier edition.
        new: Of the later one.
    """
    before, after = (_by_id(dataset) for dataset in (old, new))
    judged = read_qrels(old), read_qrels(new)
    changes: list[TopicChange] = []
    for topic in sorted(before.keys() | after.keys()):
        if topic not in before:
            changes.append(TopicChange(topic, after[topic]["title"], "new", ""))
        elif topic not in after:
            changes.append(TopicChange(topic, before[topic]["title"], "gone", _why_gone(new, topic)))
        else:
            parts = [name for name in DESCRIBED if before[topic][name] != after[topic][name]]
            parts += _judgments(judged[0].get(topic, {}), judged[1].get(topic, {}))
            if parts:
                changes.append(TopicChange(topic, after[topic]["title"], "changed", ", ".join(parts)))
    return changes


def _by_id(topics: Dataset) -> dict[int, dict[str, Any]]:
    rows = evaluated_topics(topics).select("topic_id", *DESCRIBED).iter_rows(named=True)
    return {row["topic_id"]: row for row in rows}


def _why_gone(topics: Dataset, topic: int) -> str:
    rows = pl.read_parquet(topics.files()).filter(pl.col("topic_id") == topic)
    return rows["outcome"][0] if len(rows) else "no accepted survey"


def _judgments(old: dict[int, int], new: dict[int, int]) -> Iterator[str]:
    """Yields what differs between the judgments of one topic, in words."""
    added, removed = len(new.keys() - old.keys()), len(old.keys() - new.keys())
    regraded = sum(old[paper] != new[paper] for paper in old.keys() & new.keys())
    numbers = {"added": added, "removed": removed, "regraded": regraded}
    if words := [f"{number} {name}" for name, number in numbers.items() if number]:
        yield f"judgments: {' '.join(words)}"


def compare_scores(
    old: Dataset,
    new: Dataset,
    changes: Collection[TopicChange],
    labels: str = "graded",
    measures: Collection[str] | None = None,
) -> list[ScoreChange]:
    """Compares a run's measures between editions on the unchanged topics, and averages them over the others.

    Unchanged topics can score differently, because other documents entered or left the corpus.

    Args:
        old: Dataset of stage `scores` of the earlier edition.
        new: Of the same run in the later one.
        changes: What `compare_topics` found.
        labels: `graded` or `influential`.
        measures: Only these; None: all.
    """
    others = {change.topic_id for change in changes}
    before, after = (_values(dataset, labels) for dataset in (old, new))
    found: list[ScoreChange] = []
    for measure, values in after.items():
        if measures is not None and measure not in measures:
            continue
        earlier = before.get(measure, {})
        same = sorted((values.keys() & earlier.keys()) - others)
        rest = _summary([values[topic] for topic in sorted(values.keys() & others)], _seed(new))
        numbers: tuple[float | None, ...] = (None,) * 5
        if same:
            pair = [np.array([of[topic] for topic in same]) for of in (values, earlier)]
            result = compare(*pair, seed=_seed(new))
            numbers = (float(pair[1].mean()), float(pair[0].mean()), result.difference, result.low, result.high)
        found.append(ScoreChange(measure, len(same), *numbers, new=rest))
    return found


def fresh_topics(topics: Dataset, after: date) -> set[int]:
    """Returns the evaluated topics whose survey was published after a day.

    A model trained up to that day has not seen them. A survey of which only the year or month is known counts with
    the horizon that the settings gave it.
    """
    rows = evaluated_topics(topics).filter(pl.col("horizon") > after)
    return set(rows["topic_id"].to_list())


def score_slice(scores: Dataset, topics: Collection[int], labels: str = "graded") -> dict[str, Summary]:
    """Returns a run's measures over some topics, by the measure's name.

    Args:
        scores: Dataset of stage `scores`.
        topics: Their ids.
        labels: `graded` or `influential`.
    """
    return {
        measure: _summary([value for topic, value in sorted(values.items()) if topic in topics], _seed(scores))
        for measure, values in _values(scores, labels).items()
    }


def _values(scores: Dataset, labels: str) -> dict[str, dict[int, float]]:
    """Returns the values of the topics that can be evaluated, by measure and topic."""
    rows = pl.read_parquet(scores.files()).filter((pl.col("labels") == labels) & pl.col("value").is_not_null())
    found: dict[str, dict[int, float]] = {}
    for measure, topic, value in rows.select("measure", "topic_id", "value").iter_rows():
        found.setdefault(measure, {})[topic] = value
    return found


def _seed(scores: Dataset) -> int:
    return scores.manifest.settings(scores_stage).seed


def _summary(values: list[float], seed: int) -> Summary:
    return summarize(np.array(values).reshape(-1, 1), seed)[0]
