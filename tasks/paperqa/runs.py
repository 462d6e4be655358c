"""The stage `paperqa_run`: a system answers every question; answers, trajectories, lookups and calls are written."""

import logging
from pathlib import Path
from typing import Any, NamedTuple, cast

import orjson
import pyarrow as pa
from pydantic import Field

from schemas.errors import (
    BadInput,
    MissingDependency,
    ModelError,
    OverBudget,
    StoreError,
    TransientError,
    UsageError,
)
from schemas.llm import ModelName
from schemas.paperqa import AnswerOutcome, Question
from schemas.settings import BaselineName, Settings
from schemas.table import AnyTable
from schemas.tables.model_calls import MODEL_CALLS
from schemas.tables.paperqa_runs import PAPERQA_ANSWERS, PAPERQA_LOOKUPS, PAPERQA_STEPS
from tasks.llm.asker import Asker, in_threads, open_door
from tasks.llm.blocking import BlockingDoor
from tasks.paperqa.baseline import Answered, Kit, Limits, Protocol, System, find_paperqa_baseline
from tasks.paperqa.desk import PaperQaDesk, Scope
from tasks.paperqa.files import paths
from tasks.paperqa.paper_library import PaperLibrary
from tasks.store.dataset import Dataset
from tasks.store.parquet import write_table
from tasks.store.shard import Shard, fsync_path, in_shards
from tasks.store.stage import require_version, stage
from tasks.store.workspace import Workspace

log = logging.getLogger(__name__)

Row = dict[str, Any]

SHARD_QUESTIONS = 32
NOTE_LENGTH = 500
MOST_ANSWER = 120_000
"""Characters of an answer that are kept: about 30,000 tokens."""

TABLES: dict[str, AnyTable] = {
    "part": PAPERQA_ANSWERS,
    "steps": PAPERQA_STEPS,
    "lookups": PAPERQA_LOOKUPS,
    "calls": MODEL_CALLS,
}
"""Tables of a run by the prefix of their files."""


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


class _Run(NamedTuple):
    """What answering a question takes."""

    settings: PaperQaSettings
    system: System
    library: PaperLibrary
    door: BlockingDoor
    done: Path


@stage("paperqa_run", version=1, settings=PaperQaSettings, after="paperqa_chunks")
def paperqa_run(work: Workspace[PaperQaSettings]) -> None:
    """Writes PAPERQA_ANSWERS and the side tables PAPERQA_STEPS, PAPERQA_LOOKUPS and MODEL_CALLS.

    Inputs: `questions`, `papers`, `chunks`, `bm25`, `embeddings`, and `pdfs` where there are any. Of `questions` the
    visible table alone is read.

    A shard holds 32 questions, several of which are worked on at once. Each question that is answered is kept at once,
    so that a killed run asks none again.

    Raises:
        StageFailed: The registered system has another version than the settings say.
        UsageError: No endpoint is set up, or another one than the settings name.
    """
    settings = work.settings
    found = find_paperqa_baseline(settings.baseline)
    require_version(f"stage paperqa_run: system {settings.baseline}", found.version, settings.baseline_version)
    questions = read_questions(work.dataset("questions"), settings.limit_questions)
    shards = in_shards(questions, SHARD_QUESTIONS, least=1)
    if work.finished() >= set(shards):
        return
    done = work.scratch / "answered"
    done.mkdir(exist_ok=True)
    with _open_library(work) as library, open_door(work.llm, settings.model) as door:
        run = _Run(settings, found.system, library, door, done)
        for shard in work.pending(list(shards)):
            with shard:
                _write(shard, in_threads(lambda question: _answered_once(question, run), shards[shard.name], work.llm))


def read_questions(dataset: Dataset, limit: int | None = None) -> list[Question]:
    """What systems see of a dataset of stage `paperqa_questions`, in its order."""
    return [Question.model_validate(row) for row in dataset.table().slice(0, limit).to_pylist()]


def _open_library(work: Workspace[PaperQaSettings]) -> PaperLibrary:
    names = ("papers", "chunks", "bm25", "embeddings")
    pdfs = paths(work.release("pdfs")) if "pdfs" in work.inputs else ()
    return PaperLibrary(**{name: work.dataset(name) for name in names}, pdfs=pdfs, resources=work.resources)


def _answered_once(question: Question, run: _Run) -> dict[str, list[Row]]:
    """The rows of a question by file prefix: as an earlier attempt left them, or made now and kept."""
    file = run.done / f"{question.uuid}.json"
    if file.is_file():
        return orjson.loads(file.read_bytes())
    rows = _answer(question, run)
    draft = file.with_suffix(".tmp")
    draft.write_bytes(orjson.dumps(rows))
    fsync_path(draft)
    draft.replace(file)
    return rows


def _answer(question: Question, run: _Run) -> dict[str, list[Row]]:
    settings = run.settings
    asker = Asker(run.door, "paperqa_run", settings.model, question.uuid)
    with PaperQaDesk(question, run.library, settings.scope) as desk:
        kit = Kit(desk, asker, settings.limits, settings.protocol)
        answered = ask_system(run.system, question, kit)
        lookups = [lookup._asdict() for lookup in desk.lookups]
    row = {
        "tag": settings.tag,
        "uuid": question.uuid,
        "answer": answered.answer,
        "outcome": answered.outcome,
        "note": _note(answered, desk),
        "turns": len(asker.calls),
        "input_tokens": sum(call["input_tokens"] for call in asker.calls),
        "output_tokens": sum(call["output_tokens"] for call in asker.calls),
        "cost_usd": sum(call["cost_usd"] for call in asker.calls),
    }
    steps = [{"turn": turn, **step._asdict()} for turn, step in enumerate(answered.steps, 1)]
    rows = {
        "part": [row],
        "steps": [{"uuid": question.uuid, **step} for step in steps],
        "lookups": [{"uuid": question.uuid, **lookup} for lookup in lookups],
        "calls": asker.calls,
    }
    return cast("dict[str, list[Row]]", _valid_text(rows))


def ask_system(system: System, question: Question, kit: Kit) -> Answered:
    """Asks a system; what goes wrong in it is an outcome of this question alone, unless it concerns all questions.

    Raises:
        ArenaError: No call to the model can succeed, a library is missing, or the store is damaged.
    """
    try:
        answered = system(question, kit)
    except OverBudget as error:
        return Answered(None, "over_budget", str(error))
    except (MissingDependency, ModelError, StoreError, TransientError, UsageError):
        raise
    except Exception as error:  # whatever a system of others does: it costs that system this question
        log.warning("question %s: %s", question.uuid, error, exc_info=not isinstance(error, BadInput))
        return Answered(None, "failed", f"{type(error).__name__}: {error}")
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


def _valid_text(value: Any) -> Any:
    """The same value with text that every table can hold: half a surrogate pair becomes a question mark."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case dict():
            return {key: _valid_text(item) for key, item in cast("dict[str, Any]", value).items()}
        case list():
            return [_valid_text(item) for item in cast("list[Any]", value)]
        case _:
            return value


def _write(shard: Shard, answered: list[dict[str, list[Row]]]) -> None:
    for prefix, table in TABLES.items():
        rows = [row for of_question in answered for row in of_question[prefix]]
        write_table(shard.file(f"{prefix}-{shard.name}.parquet"), table, pa.Table.from_pylist(rows, table.arrow))
    outcomes: list[AnswerOutcome] = [row["outcome"] for of_question in answered for row in of_question["part"]]
    shard.counts.read = len(outcomes)
    shard.counts.kept = outcomes.count("answered")
    shard.counts.failed = outcomes.count("failed")
    for outcome in sorted(set(outcomes) - {"answered", "failed"}):
        shard.counts.dropped[outcome] = outcomes.count(outcome)
