"""Discovery and selection: Tables 1 and 2 with intervals, beside the paper's."""

from collections.abc import Mapping
from itertools import groupby
from operator import attrgetter

from schemas.tables.scores import SummaryRow
from tasks.metrics.ranking import Labels, RankingTask, all_measures, column_labels
from tasks.ranking.views import VIEWS, marked
from tasks.reports.blocks import Cell, Change, Estimate, Section, TableBlock
from tasks.reports.published import PUBLISHED
from tasks.reports.source import ReportSource
from tasks.stats.intervals import compare_common
from tasks.stats.summaries import ALL

_NOTE = (
    "Means over all evaluated topics with 95 % bootstrap intervals over topics; a topic without results counts 0. "
    "Covered: topics for which the system returned a ranking."
)


def sections(source: ReportSource) -> list[Section]:
    """Returns the sections on discovery and selection; none when the edition has no scored run."""
    if not source.tags:
        return []
    return [
        Section(
            "Information discovery",
            "Given a survey's title, how many of the papers that the survey cites does the system find?",
            (
                _table(source, "discovery", "Table 1: recall and precision", "discovery"),
                _paper_table("discovery_paper", "The paper's Table 1 (12.0 M full texts)", "discovery"),
                _comparison(source, "discovery_differences", "discovery"),
                *_without_fallbacks(source, "discovery_fallbacks", "discovery"),
            ),
        ),
        Section(
            "Information selection",
            "Does the system rank the influential papers at the top?",
            (
                _table(
                    source, "selection", "Table 2: gain 2 for an influential reference, 1 for any other", "selection"
                ),
                _table(
                    source,
                    "selection_influential",
                    "Only influential references count as relevant",
                    "selection",
                    "influential",
                ),
                _paper_table("selection_paper", "The paper's Table 2 (12.0 M full texts)", "selection"),
                _comparison(source, "selection_differences", "selection"),
                *_without_fallbacks(source, "selection_fallbacks", "selection"),
            ),
        ),
        _by_field(source),
    ]


def _by_measure(source: ReportSource, tag: str, labels: Labels = "graded") -> dict[str, SummaryRow]:
    """Returns a run's means over all topics by measure."""
    rows = source.summaries
    return {row.measure: row for row in rows if (row.tag, row.labels, row.group) == (tag, labels, ALL)}


def _estimate(rows: Mapping[str, SummaryRow], measure: str) -> Estimate:
    """Returns the mean of a measure; nothing where the run was scored without the measure."""
    row = rows.get(measure)
    return Estimate(row.mean, row.low, row.high) if row else Estimate(None)


def _table(source: ReportSource, name: str, caption: str, task: RankingTask, labels: Labels = "graded") -> TableBlock:
    columns = column_labels(task)
    rows: list[tuple[Cell, ...]] = []
    for tag in source.tags:
        found = _by_measure(source, tag, labels)
        counts = next(iter(found.values()))
        name_shown = marked(source.shown(tag), counts.fallbacks, counts.topics)
        rows.append((name_shown, *(_estimate(found, measure) for measure in columns), counts.covered, counts.topics))
    header = ("Run", *columns.values(), "Covered", "Topics")
    return TableBlock(name, caption, header, tuple(rows), _NOTE, frozenset(columns.values()))


def _without_fallbacks(source: ReportSource, name: str, task: RankingTask) -> list[TableBlock]:
    """Returns a table of the runs that used fallbacks, without the topics concerned; none where no run did."""
    columns = column_labels(task)
    rows: list[tuple[Cell, ...]] = []
    for tag in source.tags:
        found = _by_measure(source, tag)
        counts = next(iter(found.values()))
        if counts.fallbacks:
            means = (Estimate(found[m].mean_without_fallbacks if m in found else None) for m in columns)
            rows.append((tag, *means, counts.fallbacks, counts.topics - counts.fallbacks))
    if not rows:
        return []
    header = ("Run", *columns.values(), "Fallbacks", "Other topics")
    note = (
        "Means over the topics on which no model call failed. A fallback stood in for a failed call on the others; the "
        "tables above include them."
    )
    return [TableBlock(name, "Without fallbacks", header, tuple(rows), note, frozenset(columns.values()))]


def _paper_table(name: str, caption: str, task: RankingTask) -> TableBlock:
    columns = {measure: label for measure, label in column_labels(task).items() if measure in PUBLISHED[0].means}
    rows = tuple(
        (f"{run.baseline}.{run.retriever}", *(Estimate(run.means[measure]) for measure in columns)) for run in PUBLISHED
    )
    note = "In the paper, dense retrieval uses BGE."
    return TableBlock(name, caption, ("Run", *columns.values()), rows, note, frozenset(columns.values()))


def _comparison(source: ReportSource, name: str, task: RankingTask) -> TableBlock:
    """Compares each run with the best one, by a paired test over the topics that both answered."""
    measure = VIEWS[task].headline
    columns = {tag: source.values(tag, measure) for tag in source.tags}
    best = max(columns, key=lambda tag: (len(columns[tag]), sum(columns[tag].values()), tag))
    rows: list[tuple[Cell, ...]] = []
    for tag, values in columns.items():
        if tag != best:
            found = compare_common(values, columns[best], seed=0)
            change = Change(found.difference, found.p_value) if found else None
            rows.append((tag, change, found.topics if found else 0))
    return TableBlock(
        name,
        f"{all_measures()[measure].label}: each run minus the best one of those with the most topics, {best}",
        ("Run", "Difference", "Common topics"),
        tuple(rows),
        "Two-sided paired randomization test over the topics that both runs answered; p-values are not corrected for "
        "multiple comparisons.",
    )


def _by_field(source: ReportSource) -> Section:
    headlines = [view.headline for view in VIEWS.values()]
    key = attrgetter("group", "tag")
    rows = [row for row in source.summaries if row.labels == "graded" and row.group != ALL]
    table: list[tuple[Cell, ...]] = []
    for (group, tag), part in groupby(sorted(rows, key=key), key):
        found = {row.measure: row for row in part}
        means = (_estimate(found, measure) for measure in headlines)
        table.append((group.removeprefix("field:"), tag, *means, next(iter(found.values())).topics))
    block = TableBlock(
        "by_field",
        "By field of study; a topic counts in each of its fields",
        ("Field of study", "Run", *(all_measures()[measure].label for measure in headlines), "Topics"),
        tuple(table),
    )
    return Section("By field of study", "The same scores for each field of study.", (block,), open=False)
