"""Discovery and selection: two views of the same scored runs."""

from collections.abc import Mapping
from typing import NamedTuple

from tasks.metrics.ranking import Labels, RankingTask


class View(NamedTuple):
    """How a task shows the runs; the measures of its tables name the task where they are registered.

    Attributes:
        labels: Labels under which runs are shown.
        headline: The measure by which runs are compared with each other.
    """

    labels: tuple[Labels, ...]
    headline: str


VIEWS: Mapping[RankingTask, View] = {
    "discovery": View(labels=("graded",), headline="recall_100"),
    "selection": View(labels=("graded", "influential"), headline="ndcg_cut_10"),
}
