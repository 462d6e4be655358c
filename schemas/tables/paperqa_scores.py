"""Scores of answers to questions over papers."""

from typing import Annotated, NamedTuple

import pyarrow as pa

from schemas.table import Column, Table, declare
from schemas.tables.paperqa_questions import UUID
from schemas.tables.paperqa_runs import TAG


class PaperqaScoreRow(NamedTuple):
    """The score of one answer."""

    tag: Annotated[str, TAG]
    uuid: Annotated[str, UUID]
    score: Annotated[float, Column(pa.float64(), "0 or 1; 0 without answer")]
    outcome: Annotated[
        str,
        Column(
            pa.string(),
            "`scored`, `unscored` (evaluator or judge failed), `no_verdict` (the judge's reply holds none), or the "
            "run's outcome",
        ),
    ]
    evaluator: Annotated[str, Column(pa.string(), "Name of the evaluation function")]
    reason: Annotated[str | None, Column(pa.string(), "Why it could not score, or what the judge replied")]
    judge: Annotated[str | None, Column(pa.string(), "Model that graded it, as `provider/model`; null: none was asked")]
    cost_usd: Annotated[float, Column(pa.float64(), "Price of the judge's calls", unit="USD")]


PAPERQA_SCORES = declare(Table("paperqa_scores", PaperqaScoreRow, key=("tag", "uuid")))


class PaperqaSummaryRow(NamedTuple):
    """A run's mean over all questions, or over those of one tag."""

    tag: Annotated[str, TAG]
    group: Annotated[str, Column(pa.string(), "`all`, or a tag")]
    questions: Annotated[int, Column(pa.int32(), "Questions in the mean; one without answer counts 0")]
    answered: Annotated[int, Column(pa.int32(), "Of those, questions with an answer that could be scored")]
    correct: Annotated[float, Column(pa.float64(), "Sum of scores")]
    mean: Annotated[float, Column(pa.float64(), "Micro-average")]
    low: Annotated[float, Column(pa.float64(), "Lower end of the 95 % bootstrap interval over questions")]
    high: Annotated[float, Column(pa.float64(), "Upper end")]
    cost_usd: Annotated[float, Column(pa.float64(), "Price of the run and of its judge", unit="USD")]


PAPERQA_SUMMARIES = declare(Table("paperqa_summaries", PaperqaSummaryRow, key=("tag", "group")))
