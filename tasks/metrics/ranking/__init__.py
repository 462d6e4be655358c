"""Measures of ranked lists against qrels: one measure a file, and `evaluate_run` that applies them all.

What belongs here: everything that scores ranked documents. What does not: intervals and comparisons of runs
(`tasks.stats`), measures of trees and headings (the rest of `tasks.metrics`).
"""

from tasks.metrics.ranking.evaluation import Evaluation, Labels, evaluate_run
from tasks.metrics.ranking.measure import Judged, RankingTask, all_measures, column_labels, measure

__all__ = [
    "Evaluation",
    "Judged",
    "Labels",
    "RankingTask",
    "all_measures",
    "column_labels",
    "evaluate_run",
    "measure",
]
