"""The `paperqa_scores` stage: the score of each answer by its question's evaluator, and means with intervals."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import orjson
from pydantic import Field

from schemas.errors import ModelError, OverBudget, StageFailed, TransientError
from schemas.llm import ModelName
from schemas.settings import Settings
from schemas.tables.paperqa_questions import PAPERQA_ANNOTATIONS
from schemas.tables.paperqa_runs import PAPERQA_ANSWERS
from schemas.tables.paperqa_scores import PAPERQA_SCORES, PAPERQA_SUMMARIES, PaperqaScoreRow, PaperqaSummaryRow
from tasks.llm.asker import Asker
from tasks.llm.journal import SubjectRows
from tasks.llm.subjects import Subjects, answer_subjects
from tasks.paperqa.answer_judge import DoorJudge
from tasks.paperqa.evaluators import score_answer
from tasks.stats.intervals import RESAMPLES
from tasks.stats.summaries import group_members, summarize
from tasks.store.parquet import read_tables, write_rows
from tasks.store.stage import stage
from tasks.store.workspace import Workspace

SHARD_ANSWERS = 64
REASON_LENGTH = 1000
"""Characters of a reason that are kept."""


class AnswerScoreSettings(Settings):
    """How answers are scored."""

    judge: ModelName | None = Field(
        default=None, description="Model that grades free text; empty: such answers are unscored."
    )
    seed: int = Field(default=42, description="Of the bootstrap over questions.")
    resamples: int = Field(default=RESAMPLES, ge=100, description="Of the bootstrap over questions.")


class _Answer(NamedTuple):
    """An answer with the hidden part of its question."""

    uuid: str
    answer: str | None
    outcome: str
    evaluator: Mapping[str, Any]
    tags: tuple[str, ...]
    usd: float


@stage("paperqa_scores", version=3, settings=AnswerScoreSettings, after="paperqa_run")
def paperqa_scores(work: Workspace[AnswerScoreSettings]) -> None:
    """Writes PAPERQA_SCORES and the side tables PAPERQA_SUMMARIES and MODEL_CALLS (the judge's calls).

    Inputs: `run`, `questions`. Answers are paired with questions by uuid. An answer that could not be scored counts 0
    in means, and its outcome says why; coverage stands beside each mean.

    Raises:
        StageFailed: The run answers a question that `questions` does not hold.
    """
    answers = _paired(work)
    tag = work.dataset("run").manifest.tag
    subjects = Subjects(
        items=answers,
        shard_size=SHARD_ANSWERS,
        name=lambda answer: answer.uuid,
        tables={"part": PAPERQA_SCORES},
        open=lambda: nullcontext(partial(_score, tag, work.settings.judge)),
        model=work.settings.judge,
        key=("uuid",),
    )
    answer_subjects(work, subjects)
    for shard in work.pending(["means"]):
        with shard:
            parts = read_tables(sorted(work.folder.glob("part-*.parquet")))
            rows = [row for part in parts for row in PAPERQA_SCORES.rows(part)]
            summaries = _summaries(rows, answers, tag, work.settings)
            write_rows(shard.file("summaries-00000.parquet"), PAPERQA_SUMMARIES, summaries)


def _paired(work: Workspace[AnswerScoreSettings]) -> list[_Answer]:
    annotations = PAPERQA_ANNOTATIONS.rows(work.dataset("questions").table("annotations"))
    hidden = {annotation.uuid: annotation for annotation in annotations}
    answers = PAPERQA_ANSWERS.rows(work.dataset("run").table())
    strangers = [answer.uuid for answer in answers if answer.uuid not in hidden]
    if strangers:
        raise StageFailed(
            f"stage paperqa_scores: {len(strangers)} answers belong to none of the {len(hidden)} questions, the first "
            f"to {strangers[0]}; score a run with the questions that it was made with"
        )
    return [
        _Answer(
            answer.uuid,
            answer.answer,
            answer.outcome,
            orjson.loads(hidden[answer.uuid].evaluator),
            tuple(hidden[answer.uuid].tags),
            answer.cost_usd,
        )
        for answer in answers
    ]


def _score(tag: str, model: ModelName | None, answer: _Answer, asker: Asker | None) -> SubjectRows:
    judge = DoorJudge(asker) if asker else None
    score, outcome, reason = 0.0, answer.outcome, None
    if answer.answer is not None:
        found = score_answer(answer.evaluator, answer.answer, judge)
        if judge and isinstance(judge.trouble, ModelError | TransientError):
            raise judge.trouble  # it concerns all answers
        score, outcome = found.score, "scored" if found.failure is None else "unscored"
        if found.no_verdict:
            outcome = "no_verdict"
        if judge and isinstance(judge.trouble, OverBudget):
            outcome = "over_budget"
        reason = found.failure or (judge.replies[-1] if judge and judge.replies else None)
    row = PaperqaScoreRow(
        tag,
        answer.uuid,
        score,
        outcome,
        evaluator=answer.evaluator["eval_func"],
        reason=reason[:REASON_LENGTH] if reason else None,
        judge=f"{model.provider}/{model.model}" if model and asker and asker.calls else None,
        cost_usd=sum(call.cost_usd for call in asker.calls) if asker else 0.0,
    )
    return SubjectRows([row], outcome)


def _summaries(
    rows: Sequence[PaperqaScoreRow], answers: Sequence[_Answer], tag: str, settings: AnswerScoreSettings
) -> Iterator[PaperqaSummaryRow]:
    """Yields a row over all questions, then one for each of their tags by name; none without questions."""
    values = np.array([[row.score] for row in rows])
    of_uuid = {answer.uuid: answer for answer in answers}
    groups = group_members([of_uuid[row.uuid].tags for row in rows]) if rows else {}
    for group, members in groups.items():
        chosen = [row for row, member in zip(rows, members, strict=True) if member]
        (found,) = summarize(values[members], settings.seed, settings.resamples)
        assert found.mean is not None and found.low is not None and found.high is not None
        yield PaperqaSummaryRow(
            tag,
            group,
            questions=found.valued,
            answered=sum(row.outcome == "scored" for row in chosen),
            correct=float(values[members].sum()),
            mean=found.mean,
            low=found.low,
            high=found.high,
            cost_usd=sum(row.cost_usd + of_uuid[row.uuid].usd for row in chosen),
        )
