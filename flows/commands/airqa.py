"""`arena airqa`: questions about papers."""

import shutil
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import polars as pl

from flows.commands.display import Display
from flows.commands.estimate import show_calls, show_rehearsal
from flows.commands.options import FLAT, Folder, Whole
from flows.commands.terminal import show_json, show_rows, show_text
from flows.pipeline import summaries as tables
from flows.pipeline.machine import Machine, StoreFolder
from flows.pipeline.models import choose_model, model_access
from flows.pipeline.paperqa_walk import answer_questions, plan_questions
from flows.pipeline.plans.paperqa import PaperQaFiles, PaperQaPlan
from flows.pipeline.stages import StageControl
from flows.pipeline.walk import Pipeline, Slots
from schemas.identifiers import EditionName
from schemas.llm import Estimate, Rehearsed
from tasks.demo.paperqa import write_synthetic
from tasks.llm.asker import Asker, open_door
from tasks.paperqa.answer_files import read_answers
from tasks.paperqa.answer_judge import DoorJudge
from tasks.paperqa.averages import micro_average, score_answers
from tasks.paperqa.checks import RULES, check_questions
from tasks.paperqa.files import RELEASE
from tasks.paperqa.pdf import extract_folder
from tasks.paperqa.questions import load_questions
from tasks.store.store import Store

SHOWN = ("all", "single", "multiple", "retrieval", "comprehensive", "subjective", "objective")


def check(questions: Path, /, *, metadata: Path | None = None, json: bool = False) -> int:
    """Check a file of questions for errors (V) and warnings (W). The exit code is 1 when there are errors.

    Args:
        questions: JSON lines. A uuids.json beside it is the index of papers.
        metadata: Folder of UUID.json with papers' metadata, to check as well.
        json: Print every finding as JSON.
    """
    findings = check_questions(questions, metadata)
    if json:
        show_json([finding.model_dump() for finding in findings])
    else:
        rows = [
            {"rule": f.rule, "line": f.line, "uuid": f.uuid, "where": f.where, "message": f.message} for f in findings
        ]
        show_rows(rows, questions.name)
        counts = Counter(finding.rule for finding in findings)
        summary = [{"rule": rule, "findings": counts[rule], "meaning": RULES[rule]} for rule in RULES if counts[rule]]
        show_rows(summary, "broken rules; V: error, W: warning")
    return int(any(finding.severity == "hard" for finding in findings))


def run(
    *,
    files: Annotated[PaperQaFiles, FLAT],
    edition: EditionName = "airqa",
    settings: Annotated[PaperQaPlan, FLAT] = PaperQaPlan(),
    to: Path | None = None,
    control: Annotated[StageControl, FLAT] = StageControl(),
    machine: Annotated[Machine | None, FLAT] = None,
    dry_run: bool = False,
    json: bool = False,
) -> None:
    """Run systems on questions about papers, score their answers and write the report.

    An interrupted run continues at the question where it stopped.

    Args:
        edition: Name of the edition; a new one starts when none has this name.
        to: Folder to copy the report to.
        dry_run: Build the library, estimate the language model calls and their cost, and stop.
        json: Print means as JSON.
    """
    machine = machine or Machine()
    store = Store(machine.root)
    with Display() as display:
        pipeline = Pipeline(store, edition, display.executor(store, machine), control)
        if dry_run:
            show_rehearsal(pipeline, plan_questions(pipeline, files, settings), machine, RELEASE, json)
            return
        built = answer_questions(pipeline, files, settings)
    page = store.folder(built["airqa/report"])
    if to:
        shutil.copytree(page, to, dirs_exist_ok=True)
        page = to
    means = {tag: _means(store, built, tag) for tag in sorted(_tags(built))}
    if json:
        show_json({"means": means, "report": str(page / "report.html"), "datasets": tables.slot_refs(built)})
        return
    rows = [
        {"system": tag, "scored": f"{of_run['all']['answered']} of {of_run['all']['questions']}"}
        | {group: of_run[group]["mean"] for group in SHOWN if group in of_run}
        for tag, of_run in means.items()
    ]
    show_rows(rows, "share of questions answered correctly", decimals=3)
    if settings.judge is None:
        show_text("no judge: free-text answers are unscored and count 0; name a model with --judge")
    show_text(f"report: {page / 'report.html'}")


def score(
    questions: Path,
    answers: Path,
    /,
    *,
    judge: str | None = None,
    repair: bool = False,
    folder: Folder = None,
    dry_run: bool = False,
    json: bool = False,
) -> None:
    """Score a file of answers: the micro-average over all questions, and by tag.

    Args:
        questions: JSON lines.
        answers: JSON lines {"uuid": ..., "answer": ...}, or {uuid: answer}. A question without one counts 0.
        judge: Model that grades free text; without one such answers are unscored and count 0.
        repair: Repair known mistakes in the published questions.
        dry_run: Estimate the judge's calls and their cost, and ask none.
        json: Print averages and every score as JSON.
    """
    examples = load_questions(questions, repair)
    root = (folder or StoreFolder()).root
    model = choose_model(root, judge) if judge else None
    noted = dict[str, Rehearsed]() if dry_run else None
    with open_door(model_access(root, rehearsal=noted), model) if model else nullcontext() as door:
        asked = DoorJudge(Asker(door, "airqa_score", model, answers.name)) if door and model else None
        scores = score_answers(examples, read_answers(answers), asked)
        if asked and asked.trouble:
            raise asked.trouble
    if noted is not None:
        show_calls(Estimate.of(noted.values()), json)
        return
    means = micro_average(examples, scores)
    if json:
        found = {name: vars(mean) for name, mean in means.items()}
        show_json({"means": found, "scores": {uuid: score._asdict() for uuid, score in scores.items()}})
        return
    rows = [{"tag": name, **vars(mean)} for name, mean in means.items()]
    show_rows(rows, f"{answers.name}: {len(scores)} questions")


def extract(pdfs: Path, to: Path, /) -> int:
    """Extract text by page and the outline from PDFs, without tables, figures or equations.

    Args:
        pdfs: Folder with UUID.pdf at any depth.
        to: Folder for UUID.json.
    """
    failed = extract_folder(pdfs, to)
    rows = [{"file": name, "problem": problem} for name, problem in failed.items()]
    if rows:
        show_rows(rows, "PDFs that could not be read")
    show_text(f"processed data: {to}")
    return int(bool(failed))


def synthesize(metadata: Path, to: Path, /, *, seed: Whole = 42) -> None:
    """Generate processed data from papers' metadata, marked as synthetic, to try things out.

    Args:
        metadata: Folder of UUID.json.
        to: Folder for UUID.json.
        seed: Seed of all random choices.
    """
    show_text(f"{write_synthetic(metadata, to, seed)} papers generated in {to}")


def _tags(built: Slots) -> list[str]:
    return [slot.removeprefix("airqa/scores/") for slot in built if slot.startswith("airqa/scores/")]


def _means(store: Store, built: Slots, tag: str) -> dict[str, tables.Row]:
    rows = pl.read_parquet(store.open(built[f"airqa/scores/{tag}"]).files("summaries"))
    return {row["group"]: row for row in rows.drop("tag").iter_rows(named=True)}
