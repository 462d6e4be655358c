"""The `scores` stage: a run's measures per topic, and their means with intervals."""

from collections.abc import Iterator
from typing import NamedTuple, get_args

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field

from schemas.errors import StageFailed
from schemas.settings import Settings
from schemas.tables.scores import SCORES, SUMMARIES
from tasks.metrics.ranking import Labels, all_measures, evaluate_run
from tasks.ranking.evaluated_topics import evaluated_topics, read_qrels
from tasks.stats.intervals import RESAMPLES, bootstrap_intervals
from tasks.store.dataset import Dataset
from tasks.store.parquet import write_table
from tasks.store.stage import stage
from tasks.store.workspace import Workspace

Row = dict[str, str | int | float | None]


class ScoreSettings(Settings):
    """How a run is scored."""

    seed: int = Field(default=42, description="Of the bootstrap over topics.")
    resamples: int = Field(default=RESAMPLES, ge=100, description="Of the bootstrap over topics.")
    limit_topics: int | None = Field(default=None, ge=1, description="As the run's: the first topics by id.")
    measures: tuple[str, ...] = Field(
        default_factory=lambda: tuple(all_measures()), description="Which measures, sorted; by default all there are."
    )


class ScoredTopics(NamedTuple):
    """A run's values under one labelling.

    Attributes:
        labels: `graded` or `influential`.
        values: `(n_topics, n_measures)`; 0 where the run has no result.
        evaluable: `(n_topics,)`, topics that can be evaluated under these labels.
        found: `(n_topics,)`, of those, topics for which the run has results.
    """

    labels: Labels
    values: NDArray[np.float64]
    evaluable: NDArray[np.bool_]
    found: NDArray[np.bool_]


class Ended(NamedTuple):
    """How a run ended on each topic, `(n_topics,)`: with outcome `scored`, and with a fallback."""

    covered: NDArray[np.bool_]
    fallback: NDArray[np.bool_]


@stage("scores", version=2, settings=ScoreSettings, after="run")
def scores(work: Workspace[ScoreSettings]) -> None:
    """Writes SCORES and, as side table, SUMMARIES.

    Inputs: `run`, `topics`. A topic without results counts 0 in `mean` and is left out of `mean_evaluated`;
    one for which something stood in for a failed model call is left out of `mean_without_fallbacks`.

    Raises:
        StageFailed: The run was made for other topics than the settings ask for.
    """
    run, topics = work.dataset("run"), evaluated_topics(work.dataset("topics"), work.settings.limit_topics)
    tag: str = run.manifest.parameters["tag"]
    ended = _ended(run, topics, tag)
    groups = _groups(topics)
    for shard in work.pending(["scores"]):
        with shard:
            rows: list[Row] = []
            summaries: list[Row] = []
            for scored in _score(run, work.dataset("topics"), topics, work.settings.measures):
                rows += _rows(scored, topics["topic_id"].to_list(), work.settings.measures)
                for group, members in groups.items():
                    summaries += _summarise(scored, group, members, ended, work.settings)
            summaries.sort(key=lambda row: (row["labels"], row["measure"], row["group"]))
            for name, table, content in (("part", SCORES, rows), ("summaries", SUMMARIES, summaries)):
                arrow = pa.Table.from_pylist([{"tag": tag, **row} for row in content], table.arrow)
                write_table(shard.file(f"{name}-00000.parquet"), table, arrow)
            shard.counts.read = len(topics)
            shard.counts.kept = int(ended.covered.sum())


def _ended(run: Dataset, topics: pl.DataFrame, tag: str) -> Ended:
    outcomes = pl.read_parquet(run.files("outcomes")).sort("topic_id")
    if outcomes["topic_id"].to_list() != topics["topic_id"].to_list():
        raise StageFailed(
            f"stage scores: run {tag} was made for {len(outcomes)} topics, these settings ask for {len(topics)} or for "
            "others; score it with the limit on topics and the topics that it was made with"
        )
    return Ended((outcomes["outcome"] == "scored").to_numpy(), outcomes["fallback"].to_numpy())


def _groups(topics: pl.DataFrame) -> dict[str, NDArray[np.bool_]]:
    """Members of each group, `(n_topics,)`: all topics, and those of each field of study (a topic can have several)."""
    fields = topics["fields_of_study"].to_list()
    groups = {"all": np.ones(len(topics), dtype=bool)}
    for field in sorted({field for of_topic in fields for field in of_topic}):
        groups[f"field:{field}"] = np.array([field in of_topic for of_topic in fields])
    return groups


def _score(run: Dataset, dataset: Dataset, topics: pl.DataFrame, measures: tuple[str, ...]) -> Iterator[ScoredTopics]:
    """The run under each labelling."""
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


def _rows(scored: ScoredTopics, topics: list[int], measures: tuple[str, ...]) -> Iterator[Row]:
    """Rows of SCORES without tag."""
    for measure, column in zip(measures, scored.values.T.tolist(), strict=True):
        for topic, value, evaluable in zip(topics, column, scored.evaluable.tolist(), strict=True):
            yield {
                "topic_id": topic,
                "labels": scored.labels,
                "measure": measure,
                "value": value if evaluable else None,
            }


def _summarise(
    scored: ScoredTopics, group: str, members: NDArray[np.bool_], ended: Ended, settings: ScoreSettings
) -> Iterator[Row]:
    """Rows of SUMMARIES for one group, without tag."""
    counted = members & scored.evaluable
    values, found = scored.values[counted], scored.values[counted & scored.found]
    nothing: list[None] = [None] * len(settings.measures)
    own = scored.values[counted & ~ended.fallback]
    means = low = high = evaluated = without = nothing
    if len(values):
        means = values.mean(axis=0).tolist()
        low, high = (ends.tolist() for ends in bootstrap_intervals(values, settings.seed, settings.resamples))
    if len(found):
        evaluated = found.mean(axis=0).tolist()
    if len(own):
        without = own.mean(axis=0).tolist()
    for place, measure in enumerate(settings.measures):
        yield {
            "labels": scored.labels,
            "measure": measure,
            "group": group,
            "topics": len(values),
            "covered": int((counted & ended.covered).sum()),
            "mean": means[place],
            "low": low[place],
            "high": high[place],
            "mean_evaluated": evaluated[place],
            "fallbacks": int((counted & ended.fallback).sum()),
            "mean_without_fallbacks": without[place],
        }
