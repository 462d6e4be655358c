"""Discovery and selection: two views of the same scored runs."""

from collections.abc import Mapping
from typing import NamedTuple

import polars as pl

from schemas.tables.runs import OUTCOMES
from tasks.metrics.ranking import Labels, RankingTask
from tasks.store.dataset import Dataset


class View(NamedTuple):
    """How a task shows the runs; the measures of its tables name the task where they are registered.

    Attributes:
        labels: Labels under which runs are shown.
        headline: The measure by which runs are compared with each other.
    """

    labels: tuple[Labels, ...]
    headline: str


FALLBACK_SHARE = 0.01
"""A run is marked where it is shown when a larger share of its topics had a fallback for a failed model call."""


def marked(tag: str, fallbacks: int, topics: int, share: float = FALLBACK_SHARE) -> str:
    """Returns the name of a run as tables show it: with the number of fallbacks when they are more than a share."""
    return f"{tag} ({fallbacks} fallbacks)" if fallbacks > share * topics else tag


def count_fallbacks(dataset: Dataset) -> int:
    """Returns the number of topics for which a fallback stood in, from the outcomes that a dataset holds."""
    files = dataset.files(OUTCOMES.name)
    return int(pl.read_parquet(files, columns=["fallback"])["fallback"].sum()) if files else 0


VIEWS: Mapping[RankingTask, View] = {
    "discovery": View(labels=("graded",), headline="recall_100"),
    "selection": View(labels=("graded", "influential"), headline="ndcg_cut_10"),
}
