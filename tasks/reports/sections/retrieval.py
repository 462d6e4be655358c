"""Discovery and selection: the leaderboards of Tables 1 and 2, beside the paper's figures."""

from collections.abc import Mapping
from itertools import groupby
from operator import attrgetter

import orjson

from schemas.tables.scores import SummaryRow
from tasks.metrics.ranking import RankingTask, all_measures, column_labels
from tasks.ranking.views import VIEWS
from tasks.reports.blocks import Cell, Change, Estimate, Label, Section, TableBlock
from tasks.reports.leaderboard import Leaderboard, to_estimate
from tasks.reports.names import spoken_name
from tasks.reports.published import PUBLISHED
from tasks.reports.source import ReportSource
from tasks.stats.intervals import compare_common
from tasks.stats.summaries import ALL
from tasks.stats.ties import holm

TITLES: Mapping[RankingTask, str] = {"discovery": "Information discovery", "selection": "Information selection"}
LEADS: Mapping[RankingTask, str] = {
    "discovery": "Given a survey's title, how many of the papers that the survey cites does the system find?",
    "selection": "Does the system rank the influential papers at the top?",
}
CAPTIONS: Mapping[RankingTask, str] = {
    "discovery": "Table 1: recall and precision",
    "selection": "Table 2: gain 2 for an influential reference, 1 for any other",
}


def sections(source: ReportSource) -> list[Section]:
    """Returns the sections on discovery and selection; none when the edition has no scored run."""
    if not source.tags:
        return []
    return [
        task_section(source, "discovery"),
        task_section(source, "selection"),
        _by_field(source),
        *_recall_of_indexes(source),
    ]


def task_section(source: ReportSource, task: RankingTask) -> Section:
    """Returns the section on one task: leaderboard, the paper's table, differences to the best run."""
    board = Leaderboard(source, task)
    blocks = [board.table(task, CAPTIONS[task])]
    if "influential" in VIEWS[task].labels:
        only = Leaderboard(source, task, "influential")
        blocks.append(only.table(f"{task}_influential", "Only influential references count as relevant"))
    number = CAPTIONS[task].partition(":")[0]
    return Section(
        TITLES[task],
        LEADS[task],
        (
            *blocks,
            _paper_table(f"{task}_paper", f"The paper's {number} (12.0 M full texts)", task),
            _comparison(board, f"{task}_differences"),
            *_without_fallbacks(board, f"{task}_fallbacks"),
        ),
    )


def _recall_of_indexes(source: ReportSource) -> list[Section]:
    """Returns the section on approximate indexes; none when the edition has none."""
    rows: list[tuple[Cell, ...]] = []
    for name in sorted(name for name in source.datasets if name.startswith("ann_recall:")):
        found = orjson.loads(source.datasets[name].path("recall.json").read_bytes())
        index = f"{found['kind']} over {name.partition(':')[2]}"
        for kind, group in (("horizon", found["by_horizon"]), ("oldest documents", found["by_share"])):
            rows += [
                (index, f"{kind} {row['name']}", row["topics"], row["allowed"], row["recall"], row["lacking_hits"])
                for row in group
            ]
    if not rows:
        return []
    columns = ("Index", "Filter", "Topics", "Allowed documents, share", "Recall@100", "Lacking hits")
    note = "Recall of the exact top 100 on titles of topics under their own filters, by horizon, and under one filter."
    table = TableBlock("ann_recall", "Approximate indexes beside exact search", columns, tuple(rows), note)
    return [Section("Recall of approximate indexes", "Does an approximate index lose documents?", (table,))]


def _without_fallbacks(board: Leaderboard, name: str) -> list[TableBlock]:
    """Returns a table of the runs that used fallbacks, without the topics concerned; none where no run did."""
    columns = board.measures
    rows: list[tuple[Cell, ...]] = []
    for tag in board.order:
        found = board.summaries[tag]
        counts = next(iter(found.values()))
        if counts.fallbacks:
            means = (Estimate(found[m].mean_without_fallbacks if m in found else None) for m in columns)
            rows.append((board.system(tag).label, *means, counts.fallbacks, counts.topics - counts.fallbacks))
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
        (_named(f"{run.baseline}.{run.retriever}"), *(Estimate(run.means[measure]) for measure in columns))
        for run in PUBLISHED
    )
    note = "In the paper, dense retrieval uses BGE."
    return TableBlock(name, caption, ("Run", *columns.values()), rows, note, frozenset(columns.values()))


def _named(tag: str) -> Label:
    return Label(spoken_name(tag), tag)


def _comparison(board: Leaderboard, name: str) -> TableBlock:
    """Compares each run with the best one, by a paired test over the topics that both answered."""
    source, best = board.source, board.order[0]
    columns = {tag: source.values(tag, board.headline) for tag in board.order}
    found = {tag: compare_common(columns[tag], columns[best], seed=0) for tag in board.order[1:]}
    corrected = dict(zip(found, holm([one.p_value if one else 1.0 for one in found.values()]), strict=True))
    rows: list[tuple[Cell, ...]] = []
    for tag, one in found.items():
        label = board.system(tag).label
        if one is None:
            rows.append((label, None, None, None, None, None, 0))
            continue
        change, interval = (
            Change(one.difference, corrected[tag]),
            Estimate(one.difference, one.low, one.high, one.topics),
        )
        rows.append((label, change, interval, one.wins, one.ties, one.losses, one.topics))
    return TableBlock(
        name,
        f"{all_measures()[board.headline].label}: each run minus the best one, {spoken_name(best)} ({best})",
        ("Run", "Difference", "Interval", "Better", "Equal", "Worse", "Common topics"),
        tuple(rows),
        "Two-sided paired randomisation test over the topics that both runs answered, with Holm's correction over the "
        "rows of this table; 95 % paired bootstrap intervals; topics on which the run is better, equal or worse.",
    )


def _by_field(source: ReportSource) -> Section:
    headlines = [view.headline for view in VIEWS.values()]
    rows = [row for row in source.summaries if row.labels == "graded" and row.group != ALL]
    labels = {tag: Leaderboard(source, "discovery").system(tag).label for tag in source.tags}
    table: list[tuple[Cell, ...]] = []
    for group, part in groupby(sorted(rows, key=attrgetter("group")), attrgetter("group")):
        by_tag: dict[str, dict[str, SummaryRow]] = {}
        for row in part:
            by_tag.setdefault(row.tag, {})[row.measure] = row
        for tag, found in sorted(by_tag.items(), key=lambda item: -(_mean(item[1], headlines[0]))):
            means = (to_estimate(found.get(measure)) for measure in headlines)
            table.append((group.removeprefix("field:"), labels[tag], *means, next(iter(found.values())).topics))
    block = TableBlock(
        "by_field",
        "By field of study, best first; a topic counts in each of its fields",
        ("Field of study", "Run", *(all_measures()[measure].label for measure in headlines), "Topics"),
        tuple(table),
        drawn=frozenset({all_measures()[headlines[0]].label}),
    )
    return Section("By field of study", "The same scores for each field of study.", (block,), open=False)


def _mean(found: Mapping[str, SummaryRow], measure: str) -> float:
    row = found.get(measure)
    return row.mean if row and row.mean is not None else -1.0
