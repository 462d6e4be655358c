"""The `paperqa_report` stage: the page on questions over papers, and a page with every question for each run."""

import json
from collections.abc import Iterator
from typing import Any

import polars as pl

from schemas.llm import STAND_IN
from tasks.paperqa.scores import paperqa_scores
from tasks.reports.blocks import Report, counted
from tasks.reports.html import page_templates
from tasks.reports.report import ReportSettings, write_page
from tasks.reports.sections import lineage, paperqa
from tasks.reports.sections.paperqa import RUNS, SCORES, scored_tags
from tasks.reports.source import ReportSource
from tasks.store.stage import stage
from tasks.store.workspace import Workspace

SHOWN_CHARACTERS = 1500
"""Characters of an observation or an answer that the page of a run shows."""

_templates = page_templates("tasks.reports")


@stage("paperqa_report", version=5, settings=ReportSettings, after="paperqa_scores")
def paperqa_report(work: Workspace[ReportSettings]) -> None:
    """Writes report.html, report.md, report.json, a CSV per table, and `questions/<tag>.html` for every run.

    Inputs: `questions`, and `paperqa_run:<tag>` with `paperqa_scores:<tag>` for every run.
    """
    source = ReportSource({name: work.dataset(name) for name in work.inputs})
    tags = scored_tags(source)
    for shard in work.pending(["report", *tags]):
        with shard:
            if shard.name == "report":
                write_page(shard, compose(source, work.settings))
                shard.counts.kept = len(tags)
            else:
                shard.file(f"questions/{shard.name}.html").write_text(question_page(source, shard.name))


def compose(source: ReportSource, settings: ReportSettings) -> Report:
    """Returns the main page's content."""
    questions = source.datasets["questions"].manifest.counts.kept
    tags = scored_tags(source)
    counts = f"{counted(questions, 'question')}, {counted(len(tags), 'run')}"
    subtitle = f"Edition {settings.edition}: {counts}. All questions of a run:"
    content = (*paperqa.sections(source), *lineage.sections(source))
    pages = {tag: f"questions/{tag}.html" for tag in tags}
    return Report(settings.title, subtitle, content, tuple(warnings(source)), pages)


def warnings(source: ReportSource) -> Iterator[str]:
    """Yields what makes figures of the page unfit for comparison."""
    runs = {tag: source.datasets[RUNS + tag].manifest.parameters for tag in scored_tags(source)}
    judges = [source.datasets[SCORES + tag].manifest.settings(paperqa_scores).judge for tag in runs]
    if any(made.get("model", {}).get("provider") == STAND_IN for made in runs.values()):
        yield (
            "In runs whose names end in +stand-in, a program that counts shared words answered in place of a language "
            "model. Their figures show that the pipeline works; they say nothing about the systems."
        )
    if any(judge and judge.provider == STAND_IN for judge in judges):
        yield "The judge is the stand-in: scores of free-text answers mean nothing."
    if any(
        judge and made.get("model") == judge.model_dump() for made, judge in zip(runs.values(), judges, strict=True)
    ):
        yield "The judge of some runs is the model that answered: models favour answers of their own."
    if None in judges:
        yield "A run was scored without a judge: its free-text answers are unscored and count 0."
    for dataset in source.of_stage("paperqa_store"):
        made = dataset.table(columns=["extraction"])["extraction"].to_pylist()
        if count := made.count("synthetic"):
            yield f"The contents of {count:,} of {len(made):,} papers were made up from their abstracts."
        if count := made.count(None):
            yield f"{count:,} of {len(made):,} papers have no processed data: systems can find only their abstracts."
    if any(made.get("limit_questions") for made in runs.values()):
        yield "Some runs answer only the first questions: use these figures for development only."


def question_page(source: ReportSource, tag: str) -> str:
    """Returns HTML with each question of a run: answer, score, reason, evaluator, trajectory; all text is escaped."""
    questions = {row["uuid"]: row for row in source.datasets["questions"].table().to_pylist()}
    hidden = {row["uuid"]: row for row in source.datasets["questions"].table("annotations").to_pylist()}
    scores = {row["uuid"]: row for row in source.datasets[SCORES + tag].table().to_pylist()}
    steps = pl.read_parquet(source.datasets[RUNS + tag].files("steps")).partition_by("uuid", as_dict=True)
    entries = [
        {
            "question": questions[answer["uuid"]],
            "tags": hidden[answer["uuid"]]["tags"],
            "evaluator": _pretty(hidden[answer["uuid"]]["evaluator"]),
            "answer": answer,
            "score": scores[answer["uuid"]],
            "steps": steps[(answer["uuid"],)].sort("turn").to_dicts() if (answer["uuid"],) in steps else [],
        }
        for answer in source.datasets[RUNS + tag].table().to_pylist()
    ]
    return _templates.get_template("paperqa_questions.html.jinja").render(tag=tag, entries=entries, short=_short)


def _pretty(text: str) -> str:
    return json.dumps(json.loads(text), ensure_ascii=False, indent=1)


def _short(text: Any) -> str:
    told = "" if text is None else str(text)
    return told if len(told) <= SHOWN_CHARACTERS else f"{told[:SHOWN_CHARACTERS]} ... ({len(told):,} characters)"
