"""What a system's list holds, what its search costs, and what each of its parts adds."""

from collections.abc import Iterator

import numpy as np
import polars as pl

from schemas.settings import REQUIRED_DATASETS
from tasks.metrics.ranking import all_measures
from tasks.ranking.baseline import all_baselines
from tasks.ranking.evaluated_topics import read_qrels
from tasks.ranking.views import VIEWS
from tasks.reports.blocks import Cell, Change, Estimate, Label, Section, TableBlock
from tasks.reports.source import ReportSource
from tasks.reports.systems import describe_system
from tasks.stats.intervals import compare_common
from tasks.stats.summaries import summarize
from tasks.stats.ties import holm

HEADLINE = VIEWS["discovery"].headline


def sections(source: ReportSource) -> list[Section]:
    """Returns the section on candidates, cost and parts; none when the edition has no scored run."""
    if not source.tags:
        return []
    blocks = (_candidates(source), *_parts(source))
    lead = "How much do whole lists hold, how many searches do they take, and what does each part of a system add?"
    return [Section("Candidates, cost and parts", lead, blocks, open=False)]


def _candidates(source: ReportSource) -> TableBlock:
    """Shows the recall of each run's whole list, and its searches and citation look-ups a topic."""
    qrels = {
        topic: {doc for doc, label in docs.items() if label}
        for topic, docs in read_qrels(source.datasets["topics"]).items()
    }
    rows = [_row(source, tag, qrels) for tag in source.tags]
    note = (
        "Recall of the list: the share of a topic's relevant papers anywhere in the list, mean over topics with a 95 % "
        "bootstrap interval. No reordering reaches more; runs with --cutoff 1000 (@1000) show it for 1,000 candidates."
    )
    columns = ("Run", "Length", "Recall of the list", "Searches a topic", "Look-ups a topic")
    return TableBlock("candidates", "Candidates and cost", columns, tuple(rows), note, frozenset({columns[2]}))


def _row(source: ReportSource, tag: str, qrels: dict[int, set[int]]) -> tuple[Cell, ...]:
    run = source.datasets[f"run:{tag}"]
    outcomes = pl.read_parquet(run.files("outcomes"))["topic_id"].to_list()
    found: dict[int, set[int]] = {}
    for topic, paper in pl.read_parquet(run.files(), columns=["topic_id", "corpus_id"]).iter_rows():
        found.setdefault(topic, set()).add(paper)
    shares = [
        [len(found.get(topic, set()) & qrels[topic]) / len(qrels[topic])] for topic in outcomes if qrels.get(topic)
    ]
    recall = Estimate(None)
    if shares:
        (summary,) = summarize(np.array(shares), seed=0)
        recall = Estimate(summary.mean, summary.low, summary.high, summary.valued)
    looks, searches = _searches(source, tag)
    topics = max(1, len(outcomes))
    return _label(source, tag), run.manifest.parameters.get("cutoff"), recall, searches / topics, looks / topics


def _label(source: ReportSource, tag: str) -> Label:
    return describe_system(tag, source.datasets[f"run:{tag}"], page=f"systems/{tag}").label


def _searches(source: ReportSource, tag: str) -> tuple[int, int]:
    """Returns how many citation look-ups and how many searches a run made; 0 for one from outside."""
    files = source.datasets[f"run:{tag}"].files("searches")
    if not files:
        return 0, 0
    looked = pl.read_parquet(files, columns=["retriever"])["retriever"].is_in(["references", "citations"])
    return int(looked.sum()), int((~looked).sum())


def _parts(source: ReportSource) -> Iterator[TableBlock]:
    """Yields the table of pairs of runs that differ in one part; nothing when there is no such pair."""
    found = {
        pair: one
        for pair in _pairs(source.tags)
        if (one := compare_common(*(source.values(tag, HEADLINE) for tag in pair), seed=0))
    }
    corrected = holm([one.p_value for one in found.values()])
    rows: list[tuple[Cell, ...]] = []
    for (pair, one), p_value in zip(found.items(), corrected, strict=True):
        rows.append((*(_label(source, tag) for tag in pair), Change(one.difference, p_value), one.topics))
    if rows:
        yield TableBlock(
            "parts",
            f"{all_measures()[HEADLINE].label}: each run minus the run that lacks one of its parts",
            ("Run", "Without the part", "Difference", "Common topics"),
            tuple(rows),
            "Two-sided paired randomisation test, with Holm's correction over the rows of this table.",
        )


def _pairs(tags: list[str]) -> Iterator[tuple[str, str]]:
    """Yields runs beside those of the system that they extend, and of the retriever that lacks one index."""
    known = set(tags)
    for tag in tags:
        name, _, rest = tag.partition(".")
        system = all_baselines().get(name)
        retriever, _, marks = rest.partition(".")
        plain = [f"{system.extends}.{rest}"] if system and system.extends else []
        for fewer in _with_one_index_less(retriever):
            field = marks.partition("+")[0]  # without the mark of an encoder, which goes with dense
            plain += [f"{name}.{fewer}.{marks}", f"{name}.{fewer}.{field}"]
        yield from ((tag, other) for other in dict.fromkeys(plain) if other in known)


def _with_one_index_less(retriever: str) -> list[str]:
    indexes: dict[str, set[str]] = {name: set(parts) for name, parts in REQUIRED_DATASETS.items()}
    all_of_them = indexes.get(retriever, set())
    return [name for name, parts in indexes.items() if parts < all_of_them and len(parts) == len(all_of_them) - 1]
