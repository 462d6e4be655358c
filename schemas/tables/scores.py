"""Scores of a run: every measure of every topic, and its summary."""

import pyarrow as pa

from schemas.table import Column, Table, declare

SCORES = declare(
    Table(
        "scores",
        "One measure of one topic under one labelling.",
        (
            Column("tag", pa.string(), "Name of the run"),
            Column("topic_id", pa.int64(), "corpus_id of the survey"),
            Column("labels", pa.string(), "`graded` or `influential`"),
            Column("measure", pa.string(), "Measure's name as in trec_eval, e.g. `recall_100`"),
            Column("value", pa.float64(), "Null: the topic cannot be evaluated under these labels", nullable=True),
        ),
        key=("tag", "topic_id", "labels", "measure"),
        order=("labels", "measure", "topic_id"),
    )
)

SUMMARIES = declare(
    Table(
        "summaries",
        "One measure of a run over a group of topics.",
        (
            Column("tag", pa.string(), "Name of the run"),
            Column("labels", pa.string(), "`graded` or `influential`"),
            Column("measure", pa.string(), "Measure's name as in trec_eval"),
            Column("group", pa.string(), "`all`, or `field:<field of study>`"),
            Column("topics", pa.int32(), "Topics in the mean; a topic without results counts 0"),
            Column("covered", pa.int32(), "Of those, topics whose outcome is `scored`"),
            Column("mean", pa.float64(), "Over all topics of the group", nullable=True),
            Column("low", pa.float64(), "Lower end of the 95 % bootstrap interval over topics", nullable=True),
            Column("high", pa.float64(), "Upper end", nullable=True),
            Column("mean_evaluated", pa.float64(), "Over the topics that have results", nullable=True),
            Column("fallbacks", pa.int32(), "Topics for which something stood in for a failed model call"),
            Column("mean_without_fallbacks", pa.float64(), "Over the other topics", nullable=True),
        ),
        key=("tag", "labels", "measure", "group"),
        order=("labels", "measure", "group"),
    )
)
