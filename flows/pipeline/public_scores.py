"""Scores of a served run for those who made it: over the public topics alone."""

from collections.abc import Mapping, Sequence

import polars as pl

from flows.pipeline.plans.submissions import PLACES
from flows.pipeline.summaries import Row
from schemas.manifest import Ref
from schemas.split import Split
from schemas.submission import Task
from schemas.tables.runs import OUTCOMES
from tasks.metrics.ranking import column_labels
from tasks.ranking.views import VIEWS
from tasks.stats.summaries import summarize
from tasks.store.dataset import Dataset
from tasks.store.store import Store


def public_scores(store: Store, slots: Mapping[str, Ref], task: Task, split: Split) -> dict[str, object]:
    """Returns the means over public topics, with the bounds of their 95 % intervals, and how many topics are private.

    Args:
        store: Store of the datasets.
        slots: The slots of the run and of its scores.
        task: What the run answers.
        split: Which topics are private.

    Returns:
        `scores`, by labels (`graded`, `influential`; `trees`; `answers`), and `private_topics`, in the form of
        `schemas.service.RunStatus`.
    """
    scored = next(store.open(ref) for slot, ref in slots.items() if slot.startswith(PLACES[task].scores))
    values, covered = _values(scored, task), _covered([scored, *map(store.open, slots.values())], task)
    topics: list[str | int] = values["topic"].unique().sort().to_list()
    public = [topic for topic in topics if not split.is_private(topic)]
    shown = values.filter(pl.col("topic").is_in(public))
    scores = {
        labels: _means(rows.drop("labels"), covered, scored.manifest.parameters)
        for (labels,), rows in shown.partition_by("labels", as_dict=True).items()
    }
    return {"scores": scores, "private_topics": len(topics) - len(public)}


def _values(scored: Dataset, task: Task) -> pl.DataFrame:
    """Returns the values of a run: `topic`, `labels`, `measure`, `value`."""
    rows = pl.read_parquet(scored.files())
    if task == "paperqa":
        return rows.select(topic="uuid", labels=pl.lit("answers"), measure=pl.lit("score"), value="score")
    if task == "organization":
        return rows.select("measure", "value", topic="topic_id", labels=pl.lit("trees"))
    rows = rows.filter(pl.col("labels").is_in(VIEWS[task].labels), pl.col("measure").is_in(list(column_labels(task))))
    return rows.select("labels", "measure", "value", topic="topic_id")


def _covered(datasets: Sequence[Dataset], task: Task) -> set[object]:
    """Returns the topics whose outcome is `scored`."""
    topic, prefix = ("uuid", "part") if task == "paperqa" else ("topic_id", OUTCOMES.name)
    files = next(found for dataset in datasets if (found := dataset.files(prefix)))
    return set(pl.read_parquet(files).filter(outcome="scored")[topic])


def _means(rows: pl.DataFrame, covered: set[object], rule: Mapping[str, int]) -> Row:
    wide = rows.pivot(on="measure", index="topic", values="value").sort("topic")
    told: Row = {"topics": len(wide), "covered": len(covered & set(wide["topic"]))}
    values = wide.drop("topic").cast(pl.Float64).fill_null(float("nan")).to_numpy()
    for measure, found in zip(wide.columns[1:], summarize(values, rule["seed"], rule["resamples"]), strict=True):
        told |= {measure: found.mean, f"{measure}_low": found.low, f"{measure}_high": found.high}
    return told
