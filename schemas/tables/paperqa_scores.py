"""Scores of answers to questions over papers."""

import pyarrow as pa

from schemas.table import Column, Table, declare
from schemas.tables.paperqa_questions import UUID
from schemas.tables.paperqa_runs import TAG

PAPERQA_SCORES = declare(
    Table(
        "paperqa_scores",
        "The score of one answer.",
        (
            TAG,
            UUID,
            Column("score", pa.float64(), "0 or 1; 0 without answer"),
            Column("outcome", pa.string(), "`scored`, `unscored` (evaluator or judge failed), or the run's outcome"),
            Column("evaluator", pa.string(), "Name of the evaluation function"),
            Column("reason", pa.string(), "Why it could not score, or what the judge replied", nullable=True),
            Column("cost_usd", pa.float64(), "Price of the judge's calls", unit="USD"),
        ),
        key=("tag", "uuid"),
    )
)

PAPERQA_SUMMARIES = declare(
    Table(
        "paperqa_summaries",
        "A run's mean over all questions, or over those of one tag.",
        (
            TAG,
            Column("group", pa.string(), "`all`, or a tag"),
            Column("questions", pa.int32(), "Questions in the mean; one without answer counts 0"),
            Column("answered", pa.int32(), "Of those, questions with an answer that could be scored"),
            Column("correct", pa.float64(), "Sum of scores"),
            Column("mean", pa.float64(), "Micro-average"),
            Column("low", pa.float64(), "Lower end of the 95 % bootstrap interval over questions"),
            Column("high", pa.float64(), "Upper end"),
            Column("cost_usd", pa.float64(), "Price of the run and of its judge", unit="USD"),
        ),
        key=("tag", "group"),
    )
)
