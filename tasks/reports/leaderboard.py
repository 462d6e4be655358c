"""The leaderboard of a ranking task: every run with its place, ties, measures, coverage and cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import polars as pl

from schemas.tables.scores import SummaryRow
from tasks.llm.usage import CALLS
from tasks.metrics.ranking import Labels, RankingTask, all_measures, column_labels
from tasks.ranking.views import VIEWS
from tasks.reports.blocks import Cell, Estimate, TableBlock
from tasks.reports.source import ReportSource
from tasks.reports.systems import FACETS, System, describe_system
from tasks.stats.intervals import Values
from tasks.stats.summaries import ALL
from tasks.stats.ties import SIGNIFICANT, Pair, corrected_p_values, join_places, tied_places

TIED = "Tied with"
PLACE = "#"

NOTE = (
    "Means over all evaluated topics with 95 % bootstrap intervals over topics; a topic without results counts 0. "
    f"Tied with: places of the runs that cannot be told apart by {{headline}} (paired randomisation test over topics, "
    f"Holm's correction over all pairs of runs, p >= {SIGNIFICANT:g}). Bold: cannot be told apart from the highest."
)


class Usage(NamedTuple):
    """What a run spent on a topic, on average; None: it asked no model, or the time is not shown."""

    cost_usd: float | None
    tokens: float | None
    seconds: float | None


@dataclass(frozen=True)
class Leaderboard:
    """The runs of an edition in the order of a task's headline measure.

    Attributes:
        source: The edition's datasets.
        task: Discovery or selection.
        labels: `graded` or `influential`.
        group: `all`, or `field:<field of study>`.
    """

    source: ReportSource
    task: RankingTask
    labels: Labels = "graded"
    group: str = ALL

    @property
    def headline(self) -> str:
        """Measure by which runs are ranked."""
        return VIEWS[self.task].headline

    @property
    def measures(self) -> dict[str, str]:
        """Labels of the measures by name, the headline first."""
        labels = column_labels(self.task)
        return {self.headline: all_measures()[self.headline].label} | labels

    @cached_property
    def summaries(self) -> dict[str, dict[str, SummaryRow]]:
        """Means by run and measure."""
        found: dict[str, dict[str, SummaryRow]] = {}
        for row in self.source.summaries:
            if (row.labels, row.group) == (self.labels, self.group):
                found.setdefault(row.tag, {})[row.measure] = row
        return found

    @cached_property
    def ranked(self) -> list[str]:
        """Runs over the most topics, best first: only they have a place."""
        topics = {tag: next(iter(rows.values())).topics for tag, rows in self.summaries.items()}
        whole = [tag for tag, number in topics.items() if number == max(topics.values())]
        return sorted(whole, key=lambda tag: (-self._mean(tag), tag))

    @cached_property
    def order(self) -> list[str]:
        """All runs: the ranked ones, then those over fewer topics by name."""
        return [*self.ranked, *sorted(self.summaries.keys() - set(self.ranked))]

    def _mean(self, tag: str) -> float:
        row = self.summaries[tag].get(self.headline)
        return row.mean if row and row.mean is not None else -1.0

    @cached_property
    def topics(self) -> set[int] | None:
        """The topics of the group; None: all."""
        if self.group == ALL:
            return None
        field = self.group.partition(":")[2]
        return {topic.topic_id for topic in self.source.topics if field in topic.fields_of_study}

    def values(self, measure: str) -> Values:
        """Returns a row a topic and a column a run, in the order of the runs."""
        return self.source.matrix(measure, self.labels, self.order, self.topics).values

    def p_values(self, measure: str) -> dict[Pair, float]:
        """Returns the corrected p-value of each pair of ranked runs, by their places less one."""
        return corrected_p_values(self.values(measure)[:, : len(self.ranked)])

    @cached_property
    def tied(self) -> dict[int, list[int]]:
        """Places of the runs that a run is tied with by the headline, by its place less one."""
        return tied_places(range(len(self.ranked)), self.p_values(self.headline))

    def leaders(self, measure: str) -> frozenset[int]:
        """Returns the places less one of the runs that cannot be told apart from the highest by a measure."""
        tied = self.tied if measure == self.headline else None
        means = [row.mean if (row := self.summaries[tag].get(measure)) else None for tag in self.ranked]
        known = {place: mean for place, mean in enumerate(means) if mean is not None}
        if not known:
            return frozenset()
        best = max(known, key=lambda place: (known[place], -place))
        tied = tied or tied_places(range(len(self.ranked)), self.p_values(measure))
        return frozenset({best, *(place - 1 for place in tied[best])})

    def system(self, tag: str) -> System:
        """Describes a run."""
        counts = next(iter(self.summaries[tag].values()))
        run = self.source.datasets[f"run:{tag}"]
        return describe_system(tag, run, page=f"systems/{tag}", fallbacks=counts.fallbacks, of=counts.topics)

    def table(self, name: str, caption: str) -> TableBlock:
        """Returns the leaderboard as a table."""
        usage = {tag: measure_usage(self.source, tag) for tag in self.order}
        spent = _spent(list(usage.values()))
        systems = [self.system(tag) for tag in self.order]
        rows = tuple(
            (*self._standing(place), system.label, *self._scores(tag), *self._counts(tag), *_pick(usage[tag], spent))
            for place, (tag, system) in enumerate(zip(self.order, systems, strict=True))
        )
        headline, *others = self.measures.values()
        columns = (PLACE, "Run", headline, TIED, *others, "Covered", "Topics", *spent.values())
        return TableBlock(
            name,
            caption,
            columns,
            tuple((place, label, first, tied, *rest) for place, tied, label, first, *rest in rows),
            NOTE.format(headline=headline),
            leaders={label: self.leaders(measure) for measure, label in self.measures.items()},
            drawn=frozenset({headline}),
            explained=self._explained(spent),
            facets={facet: tuple(s.facets[place] for s in systems) for place, facet in enumerate(FACETS)},
        )

    def _standing(self, place: int) -> tuple[Cell, Cell]:
        if place >= len(self.ranked):
            return None, None
        return place + 1, join_places(self.tied[place]) if len(self.ranked) > 1 else None

    def _scores(self, tag: str) -> tuple[Estimate, ...]:
        return tuple(to_estimate(self.summaries[tag].get(measure)) for measure in self.measures)

    def _counts(self, tag: str) -> tuple[int, int]:
        counts = next(iter(self.summaries[tag].values()))
        return counts.covered, counts.topics

    def _explained(self, spent: Mapping[str, str]) -> dict[str, str]:
        known = all_measures()
        about = {label: known[measure].description.replace("`", "") for measure, label in self.measures.items()}
        return about | {"Covered": "Topics for which the run returned a ranking."} | {
            label: USAGE[name] for name, label in spent.items()
        }  # fmt: skip


USAGE = {
    "cost_usd": "Price of the model calls when they were made.",
    "tokens": "Tokens that the model read and wrote, on average.",
    "seconds": "How long the run took on the machine that made it, divided by its topics.",
}

_HEADERS = {"cost_usd": "USD a topic", "tokens": "Tokens a topic", "seconds": "Seconds a topic"}


def to_estimate(row: SummaryRow | None) -> Estimate:
    """Returns the mean of a measure; nothing where the run was scored without the measure."""
    return Estimate(row.mean, row.low, row.high, row.topics) if row else Estimate(None)


def measure_usage(source: ReportSource, tag: str) -> Usage:
    """Returns what a run spent on a topic; of a system from outside, what it says that it spent."""
    run, scored = source.datasets[f"run:{tag}"], source.datasets[f"scores:{tag}"]
    topics = max(1, scored.manifest.counts.read)
    if told := run.files("submissions"):
        sums = pl.read_parquet(told).select(pl.col("usd", "input_tokens", "output_tokens", "seconds").cast(float).sum())
        usd, read, written, seconds = (number / topics for number in sums.row(0))
        return Usage(usd or None, read + written or None, seconds or None)
    cost = tokens = None
    if files := run.files(CALLS):
        calls = pl.read_parquet(files, columns=["cost_usd", "input_tokens", "output_tokens"])
        cost = float(calls["cost_usd"].sum()) / topics
        tokens = (float(calls["input_tokens"].sum()) + float(calls["output_tokens"].sum())) / topics
    whole = source.timed and not run.manifest.shards_resumed
    return Usage(cost, tokens, run.manifest.seconds / topics if whole else None)


def _spent(usages: Sequence[Usage]) -> dict[str, str]:
    """Returns the headers of the kinds of usage that a run has."""
    return {name: label for name, label in _HEADERS.items() if any(getattr(one, name) is not None for one in usages)}


def _pick(usage: Usage, spent: Mapping[str, str]) -> tuple[Cell, ...]:
    return tuple(getattr(usage, name) for name in spent)
