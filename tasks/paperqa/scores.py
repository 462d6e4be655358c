"""The stage `paperqa_scores`: every answer scored by its question's evaluator, and means with intervals."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from schemas.errors import ModelError, OverBudget, StageFailed, TransientError
from schemas.llm import ModelName
from schemas.settings import Settings
from schemas.tables.model_calls import MODEL_CALLS
from schemas.tables.paperqa_scores import PAPERQA_SCORES, PAPERQA_SUMMARIES
from tasks.llm.asker import Asker, in_threads, open_door
from tasks.llm.blocking import BlockingDoor
from tasks.paperqa.answer_judge import DoorJudge
from tasks.paperqa.evaluators import score_answer
from tasks.stats.intervals import RESAMPLES, bootstrap_intervals
from tasks.store.parquet import write_table
from tasks.store.shard import Shard, in_shards
from tasks.store.stage import stage
from tasks.store.workspace import Workspace

Row = dict[str, Any]

ALL = "all"
SHARD_ANSWERS = 64
REASON_LENGTH = 1000


class AnswerScoreSettings(Settings):
    """How answers are scored."""

    judge: ModelName | None = Field(default=None, description="Who grades free text; empty: such answers are unscored.")
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


@stage("paperqa_scores", version=1, settings=AnswerScoreSettings, after="paperqa_run")
def paperqa_scores(work: Workspace[AnswerScoreSettings]) -> None:
    """Writes PAPERQA_SCORES and the side tables PAPERQA_SUMMARIES and MODEL_CALLS (of the judge).

    Inputs: `run`, `questions`. Answers are paired with questions by uuid. An answer that could not be scored counts 0
    in means, and its outcome says why; coverage stands beside each mean.

    Raises:
        StageFailed: The run answers a question that `questions` does not hold.
    """
    answers = _paired(work)
    tag: str = work.dataset("run").manifest.parameters["tag"]
    shards = in_shards(answers, SHARD_ANSWERS, least=1)
    judge = work.settings.judge
    if not work.finished() >= set(shards):
        with open_door(work.llm, judge) if judge else nullcontext() as door:
            for shard in work.pending(list(shards)):
                with shard:
                    _score_shard(shard, shards[shard.name], tag, door, work)
    for shard in work.pending(["means"]):
        with shard:
            rows = [row for name in shards for row in pq.read_table(work.folder / f"part-{name}.parquet").to_pylist()]
            summaries = summarise(rows, {answer.uuid: answer for answer in answers}, work.settings)
            table = pa.Table.from_pylist([{"tag": tag, **row} for row in summaries], PAPERQA_SUMMARIES.arrow)
            write_table(shard.file("summaries-00000.parquet"), PAPERQA_SUMMARIES, table)


def _paired(work: Workspace[AnswerScoreSettings]) -> list[_Answer]:
    hidden = {row["uuid"]: row for row in work.dataset("questions").table("annotations").to_pylist()}
    answers = work.dataset("run").table().to_pylist()
    strangers = [row["uuid"] for row in answers if row["uuid"] not in hidden]
    if strangers:
        raise StageFailed(
            f"stage paperqa_scores: {len(strangers)} answers belong to none of the {len(hidden)} questions, the first "
            f"to {strangers[0]}; score a run with the questions that it was made with"
        )
    return [
        _Answer(
            row["uuid"],
            row["answer"],
            row["outcome"],
            orjson.loads(hidden[row["uuid"]]["evaluator"]),
            tuple(hidden[row["uuid"]]["tags"]),
            row["cost_usd"],
        )
        for row in answers
    ]


def _score_shard(
    shard: Shard,
    answers: Sequence[_Answer],
    tag: str,
    door: BlockingDoor | None,
    work: Workspace[AnswerScoreSettings],
) -> None:
    def score(answer: _Answer) -> tuple[Row, list[Row]]:
        model = work.settings.judge
        asker = Asker(door, "paperqa_scores", model, answer.uuid) if door and model else None
        return _score(answer, tag, asker), asker.calls if asker else []

    scored = in_threads(score, answers, work.llm if door else None)
    rows = [row for row, _ in scored]
    calls = [call for _, of_answer in scored for call in of_answer]
    write_table(
        shard.file(f"part-{shard.name}.parquet"), PAPERQA_SCORES, pa.Table.from_pylist(rows, PAPERQA_SCORES.arrow)
    )
    if door:
        write_table(
            shard.file(f"calls-{shard.name}.parquet"), MODEL_CALLS, pa.Table.from_pylist(calls, MODEL_CALLS.arrow)
        )
    shard.counts.read = len(rows)
    shard.counts.kept = sum(row["outcome"] == "scored" for row in rows)
    for outcome in sorted({row["outcome"] for row in rows} - {"scored"}):
        shard.counts.dropped[outcome] = sum(row["outcome"] == outcome for row in rows)


def _score(answer: _Answer, tag: str, asker: Asker | None) -> Row:
    judge = DoorJudge(asker) if asker else None
    score, outcome, reason = 0.0, answer.outcome, None
    if answer.answer is not None:
        found = score_answer(answer.evaluator, answer.answer, judge)
        if judge and isinstance(judge.trouble, ModelError | TransientError):
            raise judge.trouble  # it concerns all answers
        score, outcome = found.score, "scored" if found.failure is None else "unscored"
        if judge and isinstance(judge.trouble, OverBudget):
            outcome = "over_budget"
        reason = found.failure or (judge.replies[-1] if judge and judge.replies else None)
    return {
        "tag": tag,
        "uuid": answer.uuid,
        "score": score,
        "outcome": outcome,
        "evaluator": answer.evaluator["eval_func"],
        "reason": reason[:REASON_LENGTH] if reason else None,
        "cost_usd": sum(call["cost_usd"] for call in asker.calls) if asker else 0.0,
    }


def summarise(rows: Sequence[Row], answers: Mapping[str, _Answer], settings: AnswerScoreSettings) -> list[Row]:
    """Rows of PAPERQA_SUMMARIES without tag: over all questions, then by every tag in alphabetical order."""
    tags = sorted({tag for answer in answers.values() for tag in answer.tags})
    groups = {ALL: list(rows)} | {tag: [row for row in rows if tag in answers[row["uuid"]].tags] for tag in tags}
    return [_summary(group, members, answers, settings) for group, members in groups.items() if members]


def _summary(group: str, rows: list[Row], answers: Mapping[str, _Answer], settings: AnswerScoreSettings) -> Row:
    values = np.array([[row["score"]] for row in rows])
    interval = bootstrap_intervals(values, settings.seed, settings.resamples)
    return {
        "group": group,
        "questions": len(rows),
        "answered": sum(row["outcome"] == "scored" for row in rows),
        "correct": float(values.sum()),
        "mean": float(values.mean()),
        "low": float(interval.low[0]),
        "high": float(interval.high[0]),
        "cost_usd": sum(row["cost_usd"] + answers[row["uuid"]].usd for row in rows),
    }
