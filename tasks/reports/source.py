"""The datasets of an edition that the sections of a report read, opened once."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NotRequired, TypedDict

import orjson
import polars as pl

from schemas.manifest import Ref
from schemas.submission import Kind
from schemas.tables.scores import SummaryRow
from schemas.tables.topics import TOPICS, TopicRow
from tasks.store.dataset import Dataset

KINDS: Mapping[Kind, str] = {"desk_only": "desk only", "own_tools": "own tools", "closed": "closed"}
"""What a system from outside may have used, in words."""


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


@dataclass(frozen=True)
class ReportSource:
    """Datasets by the names that the report stage gives them: `topics`, `statistics`, `run:<tag>`, `scores:<tag>`."""

    datasets: Mapping[str, Dataset]

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

    def shown(self, tag: str, kind: str = "run") -> str:
        """Returns the name of a run as tables show it: one of a system from outside says what it may have used."""
        system = self.datasets[f"{kind}:{tag}"].manifest.parameters.get("system")
        return f"{tag} (submitted, {KINDS[system['kind']]})" if system else tag

    @property
    def tags(self) -> list[str]:
        """Tags of the scored runs, sorted."""
        return list(self.under("scores"))
