"""Pages of topics: references with their labels, what each run found and missed, queries and trajectories."""

from collections.abc import Iterator
from typing import Any

import polars as pl

from schemas.tables.topics import TopicRow
from tasks.metrics.ranking import all_measures
from tasks.ranking.views import VIEWS
from tasks.reports.blocks import Cell, FigureBlock, Label, TableBlock, counted
from tasks.retrieval.trajectory import MOST_PAPERS, MOST_STEPS
from tasks.site.pages import Facts, Page, Part, SiteBlock, Step, Text, Trail
from tasks.site.topic_data import TopicData
from tasks.stats.ties import join_places

PAPER = "https://api.semanticscholar.org/CorpusID:{}"
"""Where Semantic Scholar shows a paper by its corpus id."""

RELEVANCE = {2: "influential", 1: "cited"}
HEADLINES = tuple(view.headline for view in VIEWS.values())

LONG = 400
"""Letters of a foreign text that a table shows."""


HIT = 70
"""Letters of the title of a paper that a search returned."""


def paper_label(corpus_id: int, title: str | None) -> Label:
    """Returns a paper's title with the address of its page at Semantic Scholar."""
    return Label(short(title) or f"(paper {corpus_id}, title unknown)", link=PAPER.format(corpus_id))


def short(text: str | None) -> str:
    """Returns a foreign text at most `LONG` letters long."""
    told = text or ""
    return told if len(told) <= LONG else f"{told[:LONG]} ... ({len(told):,} characters)"


def topic_page(data: TopicData, labels: dict[str, Label], topic: TopicRow, drawings: list[FigureBlock]) -> Page:
    """Returns the page of a topic.

    Args:
        data: The edition's runs.
        labels: Label of each run.
        topic: The topic.
        drawings: Its mind-map, gold beside built.
    """
    relevant = data.qrels_by_topic.get(topic.topic_id, pl.DataFrame())
    found = data.found_by_topic.get(topic.topic_id, pl.DataFrame())
    parts = [
        Part("", (Facts(_facts(topic)),)),
        Part("Runs", (_runs(data, labels, topic, relevant, found),)),
        Part("References", (_references(data, labels, relevant, found),)),
    ]
    if drawings:
        lead = "Marked headings have a counterpart in the other tree."
        parts.append(Part("Mind-map, gold beside built", tuple(drawings), lead))
    lead = f"Of each run the first {MOST_STEPS} queries and readings, with {MOST_PAPERS} papers each; #3: reference 3."
    blocks = (*_trails(data, labels, topic, relevant), *_steps(data, labels, topic))
    parts.append(Part("Queries and trajectories", blocks, lead, open=False))
    lead = "A topic: a survey's title, all that a system is told."
    return Page(f"topics/{topic.topic_id}", topic.title, lead, tuple(parts))


def _facts(topic: TopicRow) -> dict[str, Cell]:
    known = topic.horizon and f"{topic.horizon} (known to the {topic.horizon_precision})"
    return {
        "Survey": Label(f"Semantic Scholar, corpus id {topic.topic_id}", link=PAPER.format(topic.topic_id)),
        "Systems find papers before": known or "-",
        "Fields of study": ", ".join(topic.fields_of_study) or "-",
        "References": topic.references,
        "of these in the corpus": topic.accessible,
        "that count as relevant": topic.relevant,
        "influential among them": topic.influential,
    }


def _runs(
    data: TopicData, labels: dict[str, Label], topic: TopicRow, relevant: pl.DataFrame, found: pl.DataFrame
) -> TableBlock:
    """Returns a row for each run: its scores, and the references that it found and missed by their numbers."""
    ranks: dict[str, list[tuple[int, int]]] = {}
    for tag, number, rank in found.select("tag", "number", "rank").iter_rows() if len(found) else ():
        ranks.setdefault(tag, []).append((number, rank))
    outcomes = data.outcomes.get(topic.topic_id, pl.DataFrame())
    ended = {row["tag"]: row for row in outcomes.iter_rows(named=True)}
    rows: list[tuple[Cell, ...]] = []
    for tag in data.order:
        if tag not in ended:
            continue
        hits = ranks.get(tag, [])
        scores = (data.values.get((tag, measure), {}).get(topic.topic_id) for measure in HEADLINES)
        missed = set(range(1, len(relevant) + 1)) - {number for number, _ in hits}
        shown = ", ".join(f"{number} (rank {rank})" for number, rank in hits) or "none"
        how = ended[tag]["outcome"] + (", fallback" if ended[tag]["fallback"] else "")
        rows.append(
            (labels[tag], *scores, how, len(hits), shown, join_places(missed), short(ended[tag]["note"]) or None)
        )
    rows.sort(key=lambda row: -(row[1] if isinstance(row[1], float) else -1.0))
    measures = tuple(all_measures()[measure].label for measure in HEADLINES)
    return TableBlock(
        "runs",
        "What each run found and missed, by the numbers of the references below",
        ("Run", *measures, "Outcome", "Found", "Found references", "Missed", "Note"),
        tuple(rows),
    )


def _references(data: TopicData, labels: dict[str, Label], relevant: pl.DataFrame, found: pl.DataFrame) -> TableBlock:
    best: dict[int, tuple[int, str]] = {}
    by: dict[int, int] = {}
    for number, rank, tag in found.select("number", "rank", "tag").iter_rows() if len(found) else ():
        by[number] = by.get(number, 0) + 1
        best[number] = min(best.get(number, (rank, tag)), (rank, tag))
    rows: list[tuple[Cell, ...]] = []
    for row in relevant.iter_rows(named=True):
        title, date = data.papers.get(row["corpus_id"], (None, None))
        first = best.get(row["number"])
        rows.append((
            row["number"], paper_label(row["corpus_id"], title), RELEVANCE[row["relevance"]],
            None if date is None else str(date), by.get(row["number"], 0), first and first[0],
            first and labels[first[1]].text,
        ))  # fmt: skip
    return TableBlock(
        "references",
        "The references that count as relevant",
        ("#", "Paper", "Label", "Published", "Found by runs", "Best rank", "of run"),
        tuple(rows),
        "influential: gain 2; cited: gain 1. Titles and dates are Semantic Scholar's.",
    )


def _steps(data: TopicData, labels: dict[str, Label], topic: TopicRow) -> Iterator[SiteBlock]:
    searches = data.searches.get(topic.topic_id, pl.DataFrame())
    rows = [
        (
            labels[row["tag"]],
            row["position"] + 1,
            short(row["query"]),
            row["retriever"],
            row["k"],
            row["returned"],
            _hidden(row),
        )
        for row in searches.iter_rows(named=True)
    ]
    yield TableBlock(
        "queries",
        "Queries that each run sent, in order",
        ("Run", "Step", "Query", "Engine", "Asked for", "Got", "Not shown"),
        tuple(rows),
        "Not shown: hits that the topic may not see (surveys, papers that are not older, the survey itself).",
    )
    calls = data.calls.get(str(topic.topic_id), pl.DataFrame())
    if len(calls):
        yield TableBlock(
            "calls",
            "Questions to a language model, in order",
            ("Run", "Step", "Prompt", "Outcome", "Tokens read", "Tokens written", "USD", "Why it failed"),
            tuple(
                (labels[row["tag"]], row["place"], row["prompt"], row["outcome"], row["input_tokens"],
                 row["output_tokens"], row["cost_usd"], short(row["reason"]) or None)
                for row in calls.iter_rows(named=True)
            ),
        )  # fmt: skip
    for row in data.outlines.get(topic.topic_id, pl.DataFrame()).iter_rows(named=True):
        yield Text(f"Outline that {labels[row['tag']].text} wrote while it searched", row["outline"])


def _trails(data: TopicData, labels: dict[str, Label], topic: TopicRow, relevant: pl.DataFrame) -> Iterator[SiteBlock]:
    """Yields what each run did at its desk, the best run first."""
    steps = data.steps.get(topic.topic_id, pl.DataFrame())
    numbers = dict(relevant.select("corpus_id", "number").iter_rows()) if len(relevant) else {}
    by_run = steps.partition_by("tag", as_dict=True) if len(steps) else {}
    for tag in data.order:
        if (tag,) in by_run:
            rows = by_run[(tag,)].sort("position").to_dicts()
            shown = [Step(_told(row), tuple(_met(data, numbers, paper) for paper in row["papers"])) for row in rows]
            yield Trail(labels[tag], counted(len(shown), "step"), tuple(shown))


def _told(step: dict[str, Any]) -> str:
    if step["search"] is None:
        return f"read {counted(step['returned'], 'document')}"
    got = f"{step['returned']} of {step['k']}, {_hidden(step)} not shown"
    return f"{step['retriever']} ({got}): {short(step['query'])}"


def _met(data: TopicData, numbers: dict[int, int], paper: int) -> Label:
    """Returns a paper that a run was shown, with its number where it is a reference."""
    title = data.papers.get(paper, (None,))[0] or f"paper {paper}"
    shown = title if len(title) <= HIT else f"{title[:HIT]}..."
    return Label(f"#{numbers[paper]} {shown}" if paper in numbers else shown, link=PAPER.format(paper))


def _hidden(search: dict[str, Any]) -> int:
    return search["dropped_survey"] + search["dropped_date"] + search["dropped_self"]


def topic_list(data: TopicData, topics: list[TopicRow]) -> TableBlock:
    """Returns the table of all topics, with the mean and the best score over the runs."""
    columns = {measure: [data.values.get((tag, measure), {}) for tag in data.order] for measure in HEADLINES}
    rows: list[tuple[Cell, ...]] = []
    for topic in topics:
        cells: list[Cell] = []
        for measure in HEADLINES:
            values = [of_run[topic.topic_id] for of_run in columns[measure] if topic.topic_id in of_run]
            cells += [sum(values) / len(values), max(values)] if values else [None, None]
        fields = ", ".join(topic.fields_of_study)
        label = Label(topic.title, page=f"topics/{topic.topic_id}")
        rows.append((label, topic.horizon and str(topic.horizon), fields, topic.relevant, topic.influential, *cells))
    names = [all_measures()[measure].label for measure in HEADLINES]
    heads = [f"{name}, {what}" for name in names for what in ("mean", "best")]
    return TableBlock(
        "topics",
        "Topics, with the mean and the best score over all runs",
        ("Topic", "Before", "Fields of study", "Relevant", "Influential", *heads),
        tuple(rows),
        facets={"Year": tuple(str(topic.horizon.year) if topic.horizon else "-" for topic in topics)},
    )
