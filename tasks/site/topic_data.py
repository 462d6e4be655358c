"""What the pages of topics and systems show: found references, searches, outcomes and calls, read once."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from tasks.llm.usage import CALLS
from tasks.reports.source import ReportSource
from tasks.store.dataset import Dataset

Frames = Mapping[Any, pl.DataFrame]
"""Rows by topic or run."""


@dataclass(frozen=True)
class TopicData:
    """The runs of an edition, topic by topic.

    Attributes:
        source: The edition's datasets.
        order: Runs, best first.
    """

    source: ReportSource
    order: list[str]

    @cached_property
    def qrels(self) -> pl.DataFrame:
        """`topic_id`, `corpus_id`, `relevance`, and `number`: the reference's place in its topic, from 1."""
        found = pl.read_parquet(self.source.datasets["topics"].files("qrels"))
        ordered = found.sort("topic_id", pl.col("relevance"), "corpus_id", descending=[False, True, False])
        return ordered.with_columns(number=pl.int_range(1, pl.len() + 1).over("topic_id"))

    @cached_property
    def found(self) -> pl.DataFrame:
        """The relevant documents that runs found: `tag`, `topic_id`, `number`, `corpus_id`, `rank`."""
        runs = pl.scan_parquet(self._files("part")).select("tag", "topic_id", "corpus_id", "rank")
        return runs.join(self.qrels.lazy(), on=["topic_id", "corpus_id"]).sort("topic_id", "tag", "rank").collect()

    @cached_property
    def papers(self) -> dict[int, tuple[str | None, Any]]:
        """Title and date of the relevant documents, and of those that systems were shown, by corpus_id."""
        dataset = self.source.datasets.get("documents") or self.source.datasets.get("papers")
        if dataset is None:
            return {}
        stepped = [frame["papers"].explode() for frame in self.steps.values()]
        ids = pl.concat([self.qrels["corpus_id"], *stepped]).unique()
        rows = pl.scan_parquet(dataset.files()).filter(pl.col("corpus_id").is_in(ids.implode()))
        return {row[0]: row[1:] for row in rows.select("corpus_id", "title", "date").collect().iter_rows()}

    @cached_property
    def found_by_topic(self) -> Frames:
        """Found documents by topic."""
        return _split(self.found, "topic_id")

    @cached_property
    def qrels_by_topic(self) -> Frames:
        """Relevant documents by topic."""
        return _split(self.qrels, "topic_id")

    @cached_property
    def searches(self) -> Frames:
        """Queries by topic, with the run that sent each as `tag`."""
        return _split(self._joined("searches"), "topic_id")

    @cached_property
    def steps(self) -> Frames:
        """What runs did by topic: steps in order, with the run as `tag`, and the query of those that have one."""
        steps = self._joined("steps")
        if steps.is_empty():
            return {}
        asked = self._joined("searches").rename({"position": "search", "returned": "hits"})
        return _split(steps.join(asked, on=["tag", "topic_id", "search"], how="left"), "topic_id")

    @cached_property
    def outcomes(self) -> Frames:
        """Outcomes by topic, with the run as `tag`."""
        return _split(self._joined("outcomes"), "topic_id")

    @cached_property
    def outlines(self) -> Frames:
        """Outlines by topic, with the run as `tag`."""
        return _split(self._joined("outlines"), "topic_id")

    @cached_property
    def calls(self) -> Frames:
        """Model calls by topic (as text), with the run as `tag`."""
        return _split(self._joined(CALLS), "subject")

    @cached_property
    def values(self) -> dict[tuple[str, str], dict[int, float]]:
        """Values under graded labels by run and measure, then by topic."""
        rows = self.source.all_values.filter(labels="graded").drop_nulls("value")
        found: dict[tuple[str, str], dict[int, float]] = {}
        for tag, measure, topic, value in rows.select("tag", "measure", "topic_id", "value").iter_rows():
            found.setdefault((tag, measure), {})[topic] = value
        return found

    def run(self, tag: str) -> Dataset:
        """Returns the dataset of a run."""
        return self.source.datasets[f"run:{tag}"]

    def _files(self, prefix: str) -> list[Any]:
        return [path for tag in self.order for path in self.run(tag).files(prefix)]

    def _joined(self, prefix: str) -> pl.DataFrame:
        frames = [
            pl.read_parquet(files).with_columns(tag=pl.lit(tag))
            for tag in self.order
            if (files := self.run(tag).files(prefix))
        ]
        return pl.concat(frames, how="diagonal") if frames else pl.DataFrame()


def _split(frame: pl.DataFrame, column: str) -> Frames:
    if frame.is_empty():
        return {}
    return {key[0]: rows for key, rows in frame.partition_by(column, as_dict=True).items()}
