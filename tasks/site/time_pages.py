"""Pages over time: scores from edition to edition, and on topics that a model cannot know."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from itertools import pairwise

import numpy as np

from tasks.metrics.ranking import all_measures
from tasks.ranking.views import VIEWS
from tasks.reports.blocks import Cell, Estimate, FigureBlock, Label, TableBlock
from tasks.reports.edition_changes import TopicChange, compare_scores, compare_topics, fresh_topics
from tasks.reports.leaderboard import Leaderboard
from tasks.reports.source import ReportSource
from tasks.reports.systems import describe_system
from tasks.site.charts import Axis, Series, draw_lines
from tasks.site.pages import Page, Part
from tasks.stats.summaries import Summary, summarize

MOST_DAYS = 8
"""Cut-off days for which a page shows tables."""


def over_time_parts(editions: Mapping[str, ReportSource]) -> Iterator[Part]:
    """Yields a part for each task with a chart, and one for each pair of neighbouring editions; none for one edition.

    Args:
        editions: Those with scored runs, in the order of time.
    """
    names = list(editions)
    pairs = list(pairwise(names))
    changes = {pair: compare_topics(*(editions[name].datasets["topics"] for name in pair)) for pair in pairs}
    changed = {change.topic_id for found in changes.values() for change in found}
    for view in VIEWS.values() if pairs else ():
        label = all_measures()[view.headline].label
        series, topics = _lines(editions, view.headline, changed)
        if topics and series:
            chart = draw_lines(series, Axis("Edition", names), Axis(label))
            caption = f"{label} on the {topics:,} topics that are the same in all editions"
            yield Part(label, (FigureBlock(f"time-{view.headline}", caption, chart, wide=True),))
    for old, new in reversed(pairs):
        yield Part(f"From {old} to {new}", (_changes(editions, old, new, changes),), _counted(changes[old, new]))


def _counted(changes: Sequence[TopicChange]) -> str:
    return (
        f"{len(changes):,} topics are new, changed or gone; scores are compared on the others. Scores can differ there "
        "too, because other documents entered or left the corpus."
    )


def _lines(editions: Mapping[str, ReportSource], measure: str, changed: set[int]) -> tuple[list[Series], int]:
    values = {name: {tag: source.values(tag, measure) for tag in source.tags} for name, source in editions.items()}
    sets = [set(of_run) for runs in values.values() for of_run in runs.values()]
    same = (set.intersection(*sets) if sets else set[int]()) - changed
    names = {tag: _label(source, tag) for source in editions.values() for tag in source.tags}
    found = [
        Series(
            names[tag].text,
            [
                (float(place), float(np.mean([runs[tag][topic] for topic in same])))
                for place, runs in enumerate(values.values())
                if tag in runs and same
            ],
        )
        for tag in names
    ]
    return sorted((one for one in found if one.points), key=lambda one: -one.points[-1][1]), len(same)


def _label(source: ReportSource, tag: str) -> Label:
    return describe_system(tag, source.datasets[f"run:{tag}"]).label


def _changes(
    editions: Mapping[str, ReportSource], old: str, new: str, changes: Mapping[tuple[str, str], Sequence[TopicChange]]
) -> TableBlock:
    before, after = editions[old], editions[new]
    headlines = [view.headline for view in VIEWS.values()]
    rows: list[tuple[Cell, ...]] = []
    for tag in (tag for tag in after.tags if tag in before.tags):
        pair = before.datasets[f"scores:{tag}"], after.datasets[f"scores:{tag}"]
        for found in compare_scores(*pair, changes[old, new], measures=headlines):
            difference = Estimate(found.difference, found.low, found.high, found.topics)
            fresh = Estimate(found.new.mean, found.new.low, found.new.high, found.new.valued)
            measure = all_measures()[found.measure].label
            label = _label(after, tag)
            rows.append((label, measure, found.before, found.after, difference, found.topics, fresh, found.new.valued))
    return TableBlock(
        f"changes-{old}-{new}",
        f"Means on unchanged topics in {old} and {new}, and on new ones",
        ("Run", "Measure", "Before", "After", "Difference", "Unchanged topics", "On new topics", "New topics"),
        tuple(rows),
        "Differences with 95 % paired bootstrap intervals.",
        facets={"Measure": tuple(str(row[1]) for row in rows)},
    )


def fresh_page(edition: str, board: Leaderboard) -> Page:
    """Returns the page with scores on topics whose surveys appeared after a model's cut-off day, beside the others."""
    parts = [
        Part(f"Trained up to {day}", (_slices(board, day),), open=number == 0)
        for number, day in enumerate(_days(board.source))
    ]
    lead = (
        "A model that was trained up to a day cannot have seen surveys published after it. A run that is much better "
        "on older topics than on fresh ones may owe that to its training. Any other day: arena edition fresh "
        f"{edition} --after DAY."
    )
    return Page("fresh", "Fresh topics", lead, tuple(parts))


def _days(source: ReportSource) -> list[date]:
    """Returns ends of months that leave topics on both sides, the newest first; of many, some at equal distances."""
    horizons = sorted(topic.horizon for topic in source.topics if topic.horizon)
    ends = sorted({day.replace(day=1) - timedelta(days=1) for day in horizons[1:]})
    between = [day for day in ends if horizons[0] <= day < horizons[-1]]
    if len(between) > MOST_DAYS:
        between = [between[round(place)] for place in np.linspace(0, len(between) - 1, MOST_DAYS)]
    return between[::-1]


def _slices(board: Leaderboard, day: date) -> TableBlock:
    source = board.source
    young = fresh_topics(source.datasets["topics"], day)
    topics, values = source.matrix(board.headline, "graded", board.order)
    fresh = np.array([topic in young for topic in topics], bool)
    none = [Summary(0)] * len(board.order)
    parts = [summarize(values[chosen], 42) if chosen.any() else none for chosen in (fresh, ~fresh)]
    rows: list[tuple[Cell, ...]] = []
    for tag, *pair in zip(board.order, *parts, strict=True):
        means = (Estimate(one.mean, one.low, one.high, one.valued) for one in pair)
        rows.append((board.system(tag).label, *means, *(one.valued for one in pair)))
    label = all_measures()[board.headline].label
    return TableBlock(
        f"fresh-{day}",
        f"{label} on topics with surveys after {day}, and on the others",
        ("Run", "Fresh", "Older", "Fresh topics", "Older topics"),
        tuple(rows),
        "95 % bootstrap intervals over topics.",
        drawn=frozenset({"Fresh", "Older"}),
    )
