"""Discovery and selection: Tables 1 and 2 with intervals, beside the paper's."""

import polars as pl

from tasks.reports.blocks import Cell, Change, Estimate, Section, TableBlock
from tasks.reports.published import PUBLISHED
from tasks.reports.source import ReportSource, RunName
from tasks.stats.intervals import compare

DISCOVERY = {"recall_10": "Recall@10", "recall_100": "Recall@100", "P_10": "Precision@10", "P_100": "Precision@100"}
SELECTION = {"ndcg_cut_10": "nDCG@10", "ndcg_cut_30": "nDCG@30", "ndcg_cut_100": "nDCG@100", "recip_rank": "MRR"}
_IN_PAPER = {
    "recall_10": "recall_10",
    "recall_100": "recall_100",
    "P_10": "precision_10",
    "P_100": "precision_100",
    "ndcg_cut_10": "ndcg_10",
    "ndcg_cut_30": "ndcg_30",
    "ndcg_cut_100": "ndcg_100",
    "recip_rank": "mrr",
}
_NOTE = (
    "Means over all evaluated topics (a topic without results counts 0) with 95 % bootstrap intervals over topics; "
    "covered: topics for which the system returned a ranking."
)


def sections(source: ReportSource) -> list[Section]:
    """The sections on discovery and selection; none when the edition has no scored run."""
    if not source.runs:
        return []
    return [
        Section(
            "Information discovery",
            "Given a survey's title: how many of the papers that it cites does the system find?",
            (
                _table(source, "discovery", "Table 1: recall and precision", DISCOVERY, "graded"),
                _paper_table("discovery_paper", "The paper's Table 1 (12.0 M full texts)", DISCOVERY),
                _comparison(source, "recall_100", "discovery_differences"),
                *_without_fallbacks(source, "discovery_fallbacks", DISCOVERY),
            ),
        ),
        Section(
            "Information selection",
            "Are the influential papers at the top?",
            (
                _table(source, "selection", "Table 2: gains 2 (influential) and 1 (cited)", SELECTION, "graded"),
                _table(
                    source,
                    "selection_influential",
                    "Influential references alone are relevant",
                    SELECTION,
                    "influential",
                ),
                _paper_table("selection_paper", "The paper's Table 2 (12.0 M full texts)", SELECTION),
                _comparison(source, "ndcg_cut_10", "selection_differences"),
                *_without_fallbacks(source, "selection_fallbacks", SELECTION),
            ),
        ),
        _by_field(source),
    ]


def _table(source: ReportSource, name: str, caption: str, measures: dict[str, str], labels: str) -> TableBlock:
    rows = source.summaries.filter((pl.col("group") == "all") & (pl.col("labels") == labels))
    return TableBlock(
        name,
        caption,
        ("Run", *measures.values(), "Covered", "Topics"),
        tuple(_row(rows.filter(pl.col("tag") == run.tag), run, measures) for run in source.runs),
        _NOTE,
        frozenset(measures.values()),
    )


def _row(rows: pl.DataFrame, run: RunName, measures: dict[str, str]) -> tuple[Cell, ...]:
    by_measure = {row["measure"]: row for row in rows.iter_rows(named=True)}
    cells = [Estimate(by_measure[m]["mean"], by_measure[m]["low"], by_measure[m]["high"]) for m in measures]
    first = by_measure[next(iter(measures))]
    return (run.tag, *cells, first["covered"], first["topics"])


def _without_fallbacks(source: ReportSource, name: str, measures: dict[str, str]) -> list[TableBlock]:
    """Runs in which something stood in for a failed model call, without those topics; nothing where there is none."""
    summaries = source.summaries.filter((pl.col("group") == "all") & (pl.col("labels") == "graded"))
    rows: list[tuple[Cell, ...]] = []
    for run in source.runs:
        by_measure = {row["measure"]: row for row in summaries.filter(pl.col("tag") == run.tag).iter_rows(named=True)}
        first = by_measure[next(iter(measures))]
        if fallbacks := first.get("fallbacks"):
            means = (Estimate(by_measure[measure]["mean_without_fallbacks"]) for measure in measures)
            rows.append((run.tag, *means, fallbacks, first["topics"] - fallbacks))
    if not rows:
        return []
    header = ("Run", *measures.values(), "Fallbacks", "Other topics")
    note = "Means over the topics for which nothing stood in for a failed model call; the tables above hold all topics."
    return [TableBlock(name, "Without fallbacks", header, tuple(rows), note, frozenset(measures.values()))]


def _paper_table(name: str, caption: str, measures: dict[str, str]) -> TableBlock:
    rows = tuple(
        (f"{row.baseline}.{row.retriever}", *(Estimate(getattr(row, _IN_PAPER[m])) for m in measures))
        for row in PUBLISHED
    )
    return TableBlock(
        name, caption, ("Run", *measures.values()), rows, "dense: BGE in the paper.", frozenset(measures.values())
    )


def _comparison(source: ReportSource, measure: str, name: str) -> TableBlock:
    """Every run against the best one, by a paired test over the same topics."""
    scores = source.scores.filter((pl.col("labels") == "graded") & (pl.col("measure") == measure))
    columns = {
        run.tag: scores.filter(pl.col("tag") == run.tag).sort("topic_id")["value"].fill_null(0).to_numpy()
        for run in source.runs
    }
    best = max(columns, key=lambda tag: (columns[tag].mean(), tag))
    rows: list[tuple[Cell, ...]] = []
    for tag, values in columns.items():
        if tag != best:
            result = compare(values, columns[best], seed=0)
            rows.append((tag, Change(result.difference, result.p_value)))
    label = (DISCOVERY | SELECTION)[measure]
    return TableBlock(
        name,
        f"{label}: each run minus the best one, {best}",
        ("Run", "Difference"),
        tuple(rows),
        "Paired randomisation test over topics, two-sided, not corrected for the number of comparisons.",
    )


def _by_field(source: ReportSource) -> Section:
    rows = source.summaries.filter(pl.col("group").str.starts_with("field:") & (pl.col("labels") == "graded"))
    table: list[tuple[Cell, ...]] = []
    for (group, tag), part in rows.sort("group", "tag").group_by(["group", "tag"], maintain_order=True):
        by_measure = {row["measure"]: row for row in part.iter_rows(named=True)}
        recall, ndcg = by_measure["recall_100"], by_measure["ndcg_cut_10"]
        table.append(
            (
                str(group).removeprefix("field:"),
                str(tag),
                Estimate(recall["mean"], recall["low"], recall["high"]),
                Estimate(ndcg["mean"], ndcg["low"], ndcg["high"]),
                recall["topics"],
            )
        )
    block = TableBlock(
        "by_field",
        "By field of study; a topic counts in each of its fields",
        ("Field of study", "Run", "Recall@100", "nDCG@10", "Topics"),
        tuple(table),
    )
    return Section("By field of study", "The same scores, topic groups apart.", (block,), open=False)
