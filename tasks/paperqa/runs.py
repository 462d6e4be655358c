"""The `paperqa_run` stage: a system answers every question; writes answers, trajectories, lookups and calls."""

from collections.abc import Generator
from contextlib import contextmanager
from functools import partial

from pydantic import Field

from schemas.errors import MissingDependency, ModelError, StoreError, TransientError, UsageError
from schemas.llm import ModelName
from schemas.paperqa import Question
from schemas.settings import BaselineName, Settings
from schemas.tables.paperqa_runs import (
    PAPERQA_ANSWERS,
    PAPERQA_LOOKUPS,
    PAPERQA_STEPS,
    PaperqaAnswerRow,
    PaperqaLookupRow,
    PaperqaStepRow,
)
from tasks.llm.asker import Asker, require_asker
from tasks.llm.journal import SubjectRows
from tasks.llm.subjects import NOTE_LENGTH, Answerer, Failure, Subjects, answer_subjects, attempt
from tasks.paperqa.baseline import Answered, Kit, Limits, Protocol, System, find_paperqa_baseline
from tasks.paperqa.desk import PaperQaDesk, Scope
from tasks.paperqa.files import paths
from tasks.paperqa.paper_library import PaperLibrary
from tasks.store.dataset import Dataset
from tasks.store.stage import require_version, stage
from tasks.store.workspace import Workspace

SHARD_QUESTIONS = 32

MOST_ANSWER = 120_000
"""Characters of an answer that are kept: about 30,000 tokens."""

NOT_THE_SYSTEM = (MissingDependency, ModelError, StoreError, TransientError, UsageError)
"""Errors that concern all questions: they end the stage."""


class PaperQaSettings(Settings):
    """Which system answers which questions, with which model."""

    baseline: BaselineName
    baseline_version: int = Field(ge=1, description="Of the registered system: a changed system is another run.")
    model: ModelName
    protocol: Protocol = Field(default="functions", description="How agents act: by function calls, or in words.")
    scope: Scope = Field(default="named", description="Papers that a question sees: those it names, or all.")
    limits: Limits = Limits()
    limit_questions: int | None = Field(default=None, ge=1, description="Development only: the first questions.")
    tag: str = Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.@+-]*$", description="Name of the run.")


@stage("paperqa_run", version=3, settings=PaperQaSettings, after="paperqa_chunks")
def paperqa_run(work: Workspace[PaperQaSettings]) -> None:
    """Writes PAPERQA_ANSWERS and the side tables PAPERQA_STEPS, PAPERQA_LOOKUPS and MODEL_CALLS.

    Inputs: `questions`, `papers`, `chunks`, `bm25`, `embeddings`, and `pdfs` where there are any. Of `questions`, only
    the visible table is read.

    A shard holds 32 questions, several of which are answered at once. Each answer is kept as soon as it is there, so
    that a killed run asks no question again.

    Raises:
        StageFailed: The registered system has another version than the settings say.
        UsageError: No endpoint is set up, or another one than the settings name.
    """
    settings = work.settings
    found = find_paperqa_baseline(settings.baseline)
    require_version(f"stage paperqa_run: system {settings.baseline}", found.version, settings.baseline_version)
    subjects = Subjects(
        items=read_questions(work.dataset("questions"), settings.limit_questions),
        shard_size=SHARD_QUESTIONS,
        name=lambda question: question.uuid,
        tables={"part": PAPERQA_ANSWERS, "steps": PAPERQA_STEPS, "lookups": PAPERQA_LOOKUPS},
        open=partial(_open, work, found.system),
        model=settings.model,
        key=("uuid",),
    )
    answer_subjects(work, subjects)


def read_questions(dataset: Dataset, limit: int | None = None) -> list[Question]:
    """Returns what systems see of a dataset of stage `paperqa_questions`, in its order."""
    return [Question.model_validate(row) for row in dataset.table().slice(0, limit).to_pylist()]


@contextmanager
def _open(work: Workspace[PaperQaSettings], system: System) -> Generator[Answerer[Question]]:
    names = ("papers", "chunks", "bm25", "embeddings")
    pdfs = paths(work.release("pdfs")) if "pdfs" in work.inputs else ()
    datasets = {name: work.dataset(name) for name in names}
    with PaperLibrary(**datasets, pdfs=pdfs, resources=work.resources) as library:
        yield partial(_answer, work.settings, system, library)


def _answer(
    settings: PaperQaSettings, system: System, library: PaperLibrary, question: Question, asker: Asker | None
) -> SubjectRows:
    asker = require_asker(asker, "system")
    with PaperQaDesk(question, library, settings.scope) as desk:
        answered = ask_system(system, question, Kit(desk, asker, settings.limits, settings.protocol))
        lookups = [PaperqaLookupRow(question.uuid, *used[:4], [*used.papers]) for used in desk.lookups]
    row = PaperqaAnswerRow(
        tag=settings.tag,
        uuid=question.uuid,
        answer=answered.answer,
        outcome=answered.outcome,
        note=_note(answered, desk),
        turns=len(asker.calls),
        input_tokens=sum(call.input_tokens for call in asker.calls),
        output_tokens=sum(call.output_tokens for call in asker.calls),
        cost_usd=sum(call.cost_usd for call in asker.calls),
    )
    steps = [PaperqaStepRow(question.uuid, turn, *step) for turn, step in enumerate(answered.steps, 1)]
    return SubjectRows([row, *steps, *lookups], answered.outcome)


def ask_system(system: System, question: Question, kit: Kit) -> Answered:
    """Asks a system; what goes wrong in it is an outcome of this question alone, unless it concerns all questions.

    Raises:
        ArenaError: No call to the model can succeed, a library is missing, or the store is damaged.
    """
    answered = attempt(f"question {question.uuid}", lambda: system(question, kit), reraise=NOT_THE_SYSTEM)
    if isinstance(answered, Failure):
        return Answered(None, *answered)
    if answered.answer is None:
        return answered
    if not answered.answer.strip():
        return answered._replace(answer=None, outcome="empty")
    return answered._replace(answer=answered.answer[:MOST_ANSWER])


def _note(answered: Answered, desk: PaperQaDesk) -> str | None:
    notes = [answered.note] if answered.note else []
    if desk.missing:
        notes.append(f"not in the library: {', '.join(desk.missing)}")
    if not desk.scope:
        notes.append("the library has none of the papers that may be searched")
    return "; ".join(notes)[:NOTE_LENGTH] or None
