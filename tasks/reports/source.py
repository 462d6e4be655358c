"""What the sections of a report read: the datasets of an edition, opened once."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import orjson
import polars as pl

from schemas.manifest import Ref
from tasks.store.dataset import Dataset


class RunName(NamedTuple):
    """A run's tag and the parts that it was made of."""

    tag: str
    baseline: str
    retriever: str
    field: str
    cutoff: int


@dataclass(frozen=True)
class ReportSource:
    """Datasets by the names that the report stage gives them: `topics`, `statistics`, `run:<tag>`, `scores:<tag>`."""

    datasets: Mapping[str, Dataset]

    @cached_property
    def statistics(self) -> dict[str, Any]:
        """The statistics stage's numbers."""
        return orjson.loads(self.datasets["statistics"].path("statistics.json").read_bytes())

    @cached_property
    def topics(self) -> pl.DataFrame:
        """The topics table."""
        return _frame(self.datasets["topics"])

    @cached_property
    def runs(self) -> tuple[RunName, ...]:
        """Every run that has scores, sorted by tag."""
        return tuple(
            RunName(tag, p["baseline"], p["retriever"], p["field"], p["cutoff"])
            for tag, p in sorted((tag, self.datasets[f"run:{tag}"].manifest.parameters) for tag in self.tags)
        )

    @cached_property
    def summaries(self) -> pl.DataFrame:
        """Rows of every run's summaries."""
        frames = [_frame(self.datasets[f"scores:{tag}"], "summaries") for tag in self.tags]
        return pl.concat(frames, how="diagonal")  # scores of an older version have fewer columns

    @cached_property
    def scores(self) -> pl.DataFrame:
        """Rows of every run's scores by topic."""
        return pl.concat(_frame(self.datasets[f"scores:{tag}"]) for tag in self.tags)

    @cached_property
    def outcomes(self) -> pl.DataFrame:
        """Rows of every run's outcomes, with the run's tag."""
        frames = [_frame(self.datasets[f"run:{tag}"], "outcomes").with_columns(tag=pl.lit(tag)) for tag in self.tags]
        return pl.concat(frames)

    @cached_property
    def lineage(self) -> tuple[Dataset, ...]:
        """Every dataset that the report rests on, in the order of stage and key."""
        found: dict[Ref, Dataset] = {}
        for dataset in self.datasets.values():
            found |= {dataset.ref: dataset, **dataset.ancestors()}
        return tuple(found[ref] for ref in sorted(found, key=lambda ref: (ref.stage, ref.key)))

    def of_stage(self, stage: str) -> Iterator[Dataset]:
        """The datasets of one stage in the lineage."""
        return (dataset for dataset in self.lineage if dataset.manifest.stage == stage)

    @property
    def tags(self) -> list[str]:
        """Tags of the scored runs, sorted."""
        return sorted(name.partition(":")[2] for name in self.datasets if name.startswith("scores:"))


def _frame(dataset: Dataset, prefix: str = "part") -> pl.DataFrame:
    frame = pl.from_arrow(dataset.table(prefix))
    assert isinstance(frame, pl.DataFrame)
    return frame
