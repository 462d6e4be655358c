"""The `scores` stage: a run's measures per topic, and their means with intervals."""

from collections.abc import Iterator
from typing import NamedTuple, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from schemas.errors import StageFailed
from schemas.settings import TopicSubset
from schemas.tables.scores import SCORES, SUMMARIES, ScoreRow, SummaryRow
from tasks.metrics.ranking import Labels, all_measures, evaluate_run
from tasks.ranking.evaluated_topics import evaluated_topics, read_qrels
from tasks.stats.intervals import RESAMPLES
from tasks.stats.summaries import Members, group_members, means, summarize
from tasks.store.dataset import Dataset
from tasks.store.parquet import write_rows
from tasks.store.stage import stage
from tasks.store.workspace import Workspace


class ScoreSettings(TopicSubset):
    """How a run is scored; the topics are those of the run, and the seed is also that of the bootstrap over topics."""

    resamples: int = Field(default=RESAMPLES, ge=100, description="Of the bootstrap over topics.")
    measures: tuple[str, ...] = Field(
        default_factory=lambda: tuple(all_measures()), description="Which measures, sorted; by default all there are."
    )


class ScoredTopics(NamedTuple):
    """A run's values under one labelling.

    Attributes:
        labels: `graded` or `influential`.
        values: `(n_topics, n_measures)`; 0 where the run has no result.
        evaluable: `(n_topics,)`, topics that can be evaluated under these labels.
        found: `(n_topics,)`, topics for which the run has results.
    """

    labels: Labels
    values: NDArray[np.float64]
    evaluable: Members
    found: Members


class TopicOutcomes(NamedTuple):
    """How a run ended on each topic, `(n_topics,)`: with outcome `scored`, and with a fallback."""

    covered: Members
    fallback: Members


@stage("scores", version=2, settings=ScoreSettings, after="run")
def scores(work: Workspace[ScoreSettings]) -> None:
    """Writes SCORES and, as side table, SUMMARIES.

    Inputs: `run`, `topics`. A topic without results counts 0 in `mean` and is left out of `mean_evaluated`. A topic
    for which a fallback stood in for a failed model call is left out of `mean_without_fallbacks`.

    Raises:
        StageFailed: The run was made for other topics than the settings ask for.
    """
    run, topics = work.dataset("run"), evaluated_topics(work.dataset("topics"), work.settings)
    tag = run.manifest.tag
    outcomes = _read_outcomes(run, topics, tag)
    groups = group_members([[f"field:{field}" for field in fields] for fields in topics["fields_of_study"].to_list()])
    for shard in work.pending(["scores"]):
        with shard:
            rows: list[ScoreRow] = []
            summaries: list[SummaryRow] = []
            for scored in _score(run, work.dataset("topics"), topics, work.settings.measures):
                rows += _rows(scored, topics["topic_id"].to_list(), tag, work.settings.measures)
                for group, members in groups.items():
                    summaries += _summaries(scored, group, members, outcomes, tag, work.settings)
            summaries.sort(key=lambda row: (row.labels, row.measure, row.group))
            write_rows(shard.file("part-00000.parquet"), SCORES, rows)
            write_rows(shard.file("summaries-00000.parquet"), SUMMARIES, summaries)
            shard.counts.read = len(topics)
            shard.counts.kept = int(outcomes.covered.sum())


def _read_outcomes(run: Dataset, topics: pl.DataFrame, tag: str) -> TopicOutcomes:
    outcomes = pl.read_parquet(run.files("outcomes")).sort("topic_id")
    if outcomes["topic_id"].to_list() != topics["topic_id"].to_list():
        raise StageFailed(
            f"stage scores: run {tag} was made for {len(outcomes)} topics, these settings ask for {len(topics)} or for "
            "others; score it with the limit or sample, the seed and the topics that it was made with"
        )
    return TopicOutcomes((outcomes["outcome"] == "scored").to_numpy(), outcomes["fallback"].to_numpy())


def _score(run: Dataset, dataset: Dataset, topics: pl.DataFrame, measures: tuple[str, ...]) -> Iterator[ScoredTopics]:
    """Scores the run under each labelling."""
    relevance, hits = read_qrels(dataset), _read_run(run)
    qrels = {topic: relevance.get(topic, {}) for topic in topics["topic_id"]}
    completed = {topic: hits.get(topic, []) for topic in qrels}
    for labels in get_args(Labels):
        evaluated = evaluate_run(qrels, completed, labels)["per_topic"]
        values = np.zeros((len(qrels), len(measures)))
        for row, topic in zip(values, qrels, strict=True):
            row[:] = [evaluated[topic][measure] for measure in measures] if topic in evaluated else 0
        yield ScoredTopics(
            labels,
            values,
            evaluable=np.array([topic in evaluated for topic in qrels], dtype=bool),
            found=np.array([topic in hits for topic in qrels], dtype=bool),
        )


def _read_run(run: Dataset) -> dict[int, list[tuple[int, float]]]:
    hits: dict[int, list[tuple[int, float]]] = {}
    frame = pl.read_parquet(run.files(), columns=["topic_id", "corpus_id", "score"])
    for topic_id, corpus_id, score in frame.iter_rows():
        hits.setdefault(topic_id, []).append((corpus_id, score))
    return hits


def _rows(scored: ScoredTopics, topics: list[int], tag: str, measures: tuple[str, ...]) -> Iterator[ScoreRow]:
    for measure, column in zip(measures, scored.values.T.tolist(), strict=True):
        for topic, value, evaluable in zip(topics, column, scored.evaluable.tolist(), strict=True):
            yield ScoreRow(tag, topic, scored.labels, measure, value if evaluable else None)


def _summaries(
    scored: ScoredTopics, group: str, members: Members, outcomes: TopicOutcomes, tag: str, settings: ScoreSettings
) -> Iterator[SummaryRow]:
    """Yields a row for each measure over one group of topics."""
    counted = members & scored.evaluable
    evaluated = means(scored.values[counted & scored.found])
    without_fallbacks = means(scored.values[counted & ~outcomes.fallback])
    summaries = summarize(scored.values[counted], settings.seed, settings.resamples)
    for place, (measure, found) in enumerate(zip(settings.measures, summaries, strict=True)):
        yield SummaryRow(
            tag,
            scored.labels,
            measure,
            group,
            topics=found.valued,
            covered=int((counted & outcomes.covered).sum()),
            mean=found.mean,
            low=found.low,
            high=found.high,
            mean_evaluated=evaluated[place],
            fallbacks=int((counted & outcomes.fallback).sum()),
            mean_without_fallbacks=without_fallbacks[place],
        )
