"""Questions over papers: averages by tag beside the published ones, outcomes, cost and comparisons."""

import json
from collections.abc import Iterator, Mapping
from functools import reduce

import numpy as np
import polars as pl

from schemas.paperqa import TASK_TAGS
from schemas.tables.paperqa_questions import PAPERQA_ANNOTATIONS
from schemas.tables.paperqa_scores import PAPERQA_SUMMARIES, PaperqaSummaryRow
from tasks.paperqa.scores import paperqa_scores
from tasks.reports.blocks import Cell, Change, Estimate, Label, Section, TableBlock
from tasks.reports.leaderboard import PLACE, TIED
from tasks.reports.names import spoken_name
from tasks.reports.published import PUBLISHED_METHODS, PUBLISHED_MODELS
from tasks.reports.source import ReportSource
from tasks.reports.systems import FACETS, describe_system
from tasks.stats.intervals import Comparison, compare
from tasks.stats.ties import corrected_p_values, join_places, tied_places

RUNS, SCORES = "paperqa_run:", "paperqa_scores:"
ELEMENTS = ("text", "table", "image", "formula", "metadata")
CORRECT = "Correct, %"
KINDS = ("single", "multiple", "retrieval", "comprehensive", "subjective", "objective")

Means = Mapping[str, PaperqaSummaryRow]
"""A run's averages by group of questions."""


def sections(source: ReportSource) -> list[Section]:
    """Returns the sections on our runs and on the published ones; none when no answers were scored."""
    tags = scored_tags(source)
    if not tags:
        return []
    means = {tag: _means(source, tag) for tag in tags}
    return [
        Section(
            "Questions over papers",
            "How many questions does a system answer correctly, by each question's own evaluator?",
            (
                _leaderboard(source, means),
                _table("paperqa_elements", "Percent correct by kind of evidence", means, ELEMENTS),
                _table("paperqa_tasks", "Percent correct by kind of question and of evaluator", means, KINDS),
                *_scopes(source, means),
                _outcomes(source, means),
                _comparisons(source, means),
            ),
        ),
        Section(
            "Published figures",
            "Percent correct on the 553 questions of AirQA-Real, from the NeuSym-RAG paper and its page.",
            (_published_models(), _published_methods()),
        ),
    ]


def _named(tag: str) -> Label:
    return Label(spoken_name(tag), tag)


def scored_tags(source: ReportSource) -> list[str]:
    """Returns the tags of the runs that have scores, sorted."""
    return sorted(name.removeprefix(SCORES) for name in source.datasets if name.startswith(SCORES))


def _means(source: ReportSource, tag: str) -> Means:
    return {row.group: row for row in PAPERQA_SUMMARIES.rows(source.datasets[SCORES + tag].table("summaries"))}


def _percent(means: Means, group: str) -> Estimate | None:
    """Returns a mean with its interval in percent, as the published tables print it."""
    row = means.get(group)
    return row and Estimate(100 * row.mean, 100 * row.low, 100 * row.high, row.questions)


def _leaderboard(source: ReportSource, runs: Mapping[str, Means]) -> TableBlock:
    """Ranks the systems by the share of questions that they answer correctly."""
    order = sorted(runs, key=lambda tag: (-runs[tag]["all"].mean, tag))
    frames = [
        pl.read_parquet(source.datasets[SCORES + tag].files()).select("uuid", pl.col("score").alias(tag))
        for tag in order
    ]
    values = reduce(lambda left, right: left.join(right, on="uuid", how="full", coalesce=True), frames).sort("uuid")
    columns = values.select(pl.col(tag).cast(pl.Float64).fill_null(np.nan) for tag in order).to_numpy()
    tied = tied_places(range(len(order)), corrected_p_values(columns))
    systems = [describe_system(tag, source.datasets[RUNS + tag], page=f"answerers/{tag}") for tag in order]
    rows: list[tuple[Cell, ...]] = []
    for place, tag in enumerate(order):
        whole, answers = runs[tag]["all"], pl.read_parquet(source.datasets[RUNS + tag].files())
        tokens = float(answers.select(pl.col("input_tokens", "output_tokens").sum()).sum_horizontal()[0])
        shared = join_places(tied[place]) if len(order) > 1 else None
        count = max(1, whole.questions)
        spent = (whole.cost_usd / count, tokens / count)
        ranked = (place + 1, systems[place].label, _percent(runs[tag], "all"), shared)
        rows.append((*ranked, whole.answered, whole.questions, *spent))
    return TableBlock(
        "paperqa",
        "Percent of questions answered correctly, best first",
        (PLACE, "System", CORRECT, TIED, "Answered", "Questions", "USD a question", "Tokens a question"),
        tuple(rows),
        "Micro-averages with 95 % bootstrap intervals over questions. Tied with: places of the systems that cannot be "
        "told apart (paired randomisation test over questions, Holm's correction). Bold: cannot be told apart from the "
        "highest.",
        leaders={CORRECT: frozenset({0, *(place - 1 for place in tied[0])})},
        drawn=frozenset({CORRECT}),
        explained={
            CORRECT: "By each question's own evaluator; a question without an answer counts 0.",
            "Answered": "Questions with an answer that could be scored.",
            "USD a question": "Price of the calls of the run and of its judge.",
        },
        facets={facet: tuple(s.facets[at] for s in systems) for at, facet in enumerate(FACETS)},
    )


def _table(name: str, caption: str, runs: Mapping[str, Means], groups: tuple[str, ...]) -> TableBlock:
    shown = tuple(group for group in groups if group not in TASK_TAGS or any(group in means for means in runs.values()))
    rows = tuple((_named(tag), *(_percent(means, group) for group in (*shown, "all"))) for tag, means in runs.items())
    counts = {group: row.questions for means in runs.values() for group, row in means.items()}
    held = ", ".join(f"{group} {counts[group]}" for group in (*shown, "all") if group in counts)
    return TableBlock(
        name,
        caption,
        ("System", *shown, "all"),
        rows,
        "Micro-averages with 95 % bootstrap intervals over questions; a question without an answer counts 0. "
        f"Questions: {held}. A question counts for each of its tags.",
    )


def _scopes(source: ReportSource, runs: Mapping[str, Means]) -> list[TableBlock]:
    """Returns the table that compares each system's runs in both scopes; none if no system has both."""
    questions = PAPERQA_ANNOTATIONS.rows(source.datasets["questions"].table("annotations"))
    multiple = {row.uuid for row in questions if "multiple" in row.tags}
    hidden = sum(row.uuid in multiple and bool(row.reference_pdf) for row in questions)
    rows: list[tuple[Cell, ...]] = []
    for named, library in _in_both_scopes(source, runs):
        pairs = _paired(source, library, named)
        for group, chosen in (("all", pairs), ("multiple", pairs.filter(pl.col("uuid").is_in(multiple)))):
            if group in runs[named] and not chosen.is_empty():
                found = _compared(chosen)
                means = (_percent(runs[named], group), _percent(runs[library], group))
                rows.append((_named(named), group, *means, _change(found), len(chosen)))
    held = "`multiple` questions have references that they do not name: only the library holds them."
    note = f"Difference in points of percent. {hidden} of {len(multiple)} {held}"
    columns = ("System", "Questions", "Named papers", "Whole library", "Difference", "Paired")
    caption = "Percent correct by the papers that a system may use"
    return [TableBlock("paperqa_scopes", caption, columns, tuple(rows), note)] if rows else []


def _in_both_scopes(source: ReportSource, runs: Mapping[str, Means]) -> Iterator[tuple[str, str]]:
    """Yields the tags of two runs that differ in their scope alone: named papers, library."""
    found: dict[str, dict[str, str]] = {}
    for tag in runs:
        made = source.datasets[RUNS + tag].manifest.parameters
        others = json.dumps(
            {name: value for name, value in made.items() if name not in ("scope", "tag")}, sort_keys=True
        )
        found.setdefault(others, {})[str(made.get("scope"))] = tag
    yield from ((tags["named"], tags["library"]) for tags in found.values() if {"named", "library"} <= tags.keys())


def _paired(source: ReportSource, one: str, other: str) -> pl.DataFrame:
    """Returns the scores of two runs on the questions that both have, as `score` and `score_other`."""
    first, second = (
        pl.read_parquet(source.datasets[SCORES + tag].files()).select("uuid", "score") for tag in (one, other)
    )
    return first.join(second, on="uuid", suffix="_other").sort("uuid")


def _compared(pairs: pl.DataFrame) -> Comparison:
    one, other = (pairs[column].to_numpy().astype(np.float64) for column in ("score", "score_other"))
    return compare(one, other)


def _change(found: Comparison) -> Change:
    """Returns a difference in points of percent."""
    return Change(100 * found.difference, found.p_value)


def _outcomes(source: ReportSource, runs: Mapping[str, Means]) -> TableBlock:
    rows: list[tuple[Cell, ...]] = []
    for tag, means in runs.items():
        scores = pl.read_parquet(source.datasets[SCORES + tag].files())
        answers = pl.read_parquet(source.datasets[RUNS + tag].files())
        others = scores.filter(pl.col("outcome") != "scored")["outcome"].value_counts().sort("outcome").rows()
        told = ", ".join(f"{outcome} {count}" for outcome, count in others) or "-"
        whole = means["all"]
        tokens = int(answers["input_tokens"].sum()) + int(answers["output_tokens"].sum())
        turns = float(answers["turns"].sum()) / max(len(answers), 1)
        coverage = f"{whole.answered} of {whole.questions}"
        judge = source.datasets[SCORES + tag].manifest.settings(paperqa_scores).judge
        graded = f"{judge.provider}/{judge.model}" if judge else "none"
        rows.append((_named(tag), coverage, told, turns, tokens, graded, whole.cost_usd))
    used = ("Replies a question", "Tokens", "Judge", "USD, judge included")
    columns = ("System", "Answered and scored", "Other outcomes", *used)
    return TableBlock("paperqa_outcomes", "Outcomes and cost of each run", columns, tuple(rows))


def _comparisons(source: ReportSource, runs: Mapping[str, Means]) -> TableBlock:
    """Compares each run with the best one, on the questions that both have."""
    best = max(runs, key=lambda tag: (runs[tag]["all"].mean, tag))
    rows: list[tuple[Cell, ...]] = []
    for tag in runs:
        pairs = _paired(source, tag, best)
        if tag == best or pairs.is_empty():
            continue
        found = _compared(pairs)
        counts = (found.wins, found.ties, found.losses)
        rows.append((_named(tag), _change(found), *counts, len(pairs)))
    return TableBlock(
        "paperqa_comparisons",
        f"Against {best}, question by question",
        ("System", "Difference", "Better", "Equal", "Worse", "Questions"),
        tuple(rows),
        "In points of percent; randomization test on questions paired by uuid.",
    )


def _published_models() -> TableBlock:
    rows = tuple((f"{row.system}, {row.model}", *map(_one_decimal, row[2:])) for row in PUBLISHED_MODELS)
    return TableBlock("paperqa_published_models", "By kind of evidence", ("System", *ELEMENTS, "all"), rows)


def _published_methods() -> TableBlock:
    columns = ("System", "single", "multiple", "retrieval", "subjective", "objective", "all")
    return TableBlock(
        "paperqa_published_methods",
        "By kind of question and of evaluator",
        columns,
        tuple((row.system, *map(_one_decimal, row[1:])) for row in PUBLISHED_METHODS),
        "As printed, Graph-RAG's row, and NeuSym-RAG's by kind of question, do not add up to their averages.",
    )


def _one_decimal(percent: float) -> str:
    return f"{percent:.1f}"
