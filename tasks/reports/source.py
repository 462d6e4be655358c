"""The datasets of an edition that the sections of a report read, opened once."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, NotRequired, TypedDict

import numpy as np
import orjson
import polars as pl

from schemas.manifest import Ref
from schemas.tables.scores import SummaryRow
from schemas.tables.topics import TOPICS, TopicRow
from tasks.stats.intervals import Values
from tasks.store.dataset import Dataset


class CheckedNumber(TypedDict):
    """A number of this edition beside the paper's; None where one of the two has none."""

    item: str
    ours: float | None
    paper: float | None
    note: NotRequired[str]


class Statistics(TypedDict):
    """What the report reads of `statistics.json`: the paper's checklist, and counts by outcome or reason.

    Statistics of older versions lack what is not required.
    """

    checklist: list[CheckedNumber]
    outcomes: dict[str, int]
    dropped_references: dict[str, int]
    linking: dict[str, int]
    agreement: NotRequired[dict[str, float | None]]
    dates: dict[str, int]
    mistyped: NotRequired[dict[str, dict[str, int]]]


class Matrix(NamedTuple):
    """Values of a measure, `(n_topics, n_runs)`, with the topic of each row, ascending."""

    topics: list[int]
    values: Values


@dataclass(frozen=True)
class ReportSource:
    """Datasets by the names that the report stage gives them: `topics`, `statistics`, `run:<tag>`, `scores:<tag>`."""

    datasets: Mapping[str, Dataset]
    timed: bool = False
    """Whether tables show how long runs took: a page that is a dataset must not, as it would never be the same."""

    @cached_property
    def statistics(self) -> Statistics:
        """The numbers of the statistics stage."""
        return orjson.loads(self.datasets["statistics"].path("statistics.json").read_bytes())

    @cached_property
    def topics(self) -> list[TopicRow]:
        """The topics that are evaluated."""
        return [topic for topic in TOPICS.rows(self.datasets["topics"].table()) if topic.outcome == "kept"]

    @cached_property
    def summaries(self) -> list[SummaryRow]:
        """The summaries of every run; a column that scores of an older version lack is None."""
        return [
            SummaryRow(**{name: row.get(name) for name in SummaryRow._fields})
            for tag in self.tags
            for row in self.datasets[f"scores:{tag}"].table("summaries").to_pylist()
        ]

    def values(self, tag: str, measure: str) -> dict[int, float]:
        """Returns a run's values under graded labels by topic, 0 for one that cannot be evaluated."""
        rows = pl.scan_parquet(self.datasets[f"scores:{tag}"].files()).filter(labels="graded", measure=measure)
        found = rows.select("topic_id", pl.col("value").fill_null(0)).sort("topic_id").collect()
        return dict(found.iter_rows())

    @cached_property
    def all_values(self) -> pl.DataFrame:
        """Every value of every scored run: `tag`, `labels`, `measure`, `topic_id`, `value`; null: not evaluable."""
        columns = ("tag", "labels", "measure", "topic_id", "value")
        files = [path for tag in self.tags for path in self.datasets[f"scores:{tag}"].files()]
        return pl.scan_parquet(files).select(columns).collect()

    def matrix(self, measure: str, labels: str, tags: Sequence[str], topics: Collection[int] | None = None) -> Matrix:
        """Returns the values of a measure: a row a topic that can be evaluated, a column a run, NaN where it has none.

        Args:
            measure: Its name.
            labels: `graded` or `influential`.
            tags: Runs, in the order of the columns.
            topics: Only these; None: all.
        """
        rows = self.all_values.filter(labels=labels, measure=measure).drop_nulls("value")
        if topics is not None:
            rows = rows.filter(pl.col("topic_id").is_in(list(topics)))
        if rows.is_empty():
            return Matrix([], np.empty((0, len(tags))))
        wide = rows.pivot("tag", index="topic_id", values="value").sort("topic_id")
        lacking = [pl.lit(None, pl.Float64).alias(tag) for tag in tags if tag not in wide.columns]
        values = wide.with_columns(lacking).select(pl.col(tag).fill_null(np.nan) for tag in tags)
        return Matrix(wide["topic_id"].to_list(), values.to_numpy())

    @cached_property
    def lineage(self) -> tuple[Dataset, ...]:
        """Every dataset that the report rests on, in the order of stage and key."""
        found: dict[Ref, Dataset] = {}
        for dataset in self.datasets.values():
            found |= {dataset.ref: dataset, **dataset.ancestors()}
        return tuple(found[ref] for ref in sorted(found, key=lambda ref: (ref.stage, ref.key)))

    def of_stage(self, stage: str) -> Iterator[Dataset]:
        """Yields the datasets of one stage in the lineage."""
        return (dataset for dataset in self.lineage if dataset.manifest.stage == stage)

    def under(self, prefix: str) -> dict[str, Dataset]:
        """Returns the datasets named `<prefix>:<tag>` by tag, sorted."""
        named = (name.partition(":") for name in sorted(self.datasets))
        return {tag: self.datasets[f"{prefix}:{tag}"] for start, _, tag in named if start == prefix and tag}

    @property
    def tags(self) -> list[str]:
        """Tags of the scored runs, sorted."""
        return list(self.under("scores"))
