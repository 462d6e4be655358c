"""Scores of a run: every measure of every topic, and its summary."""

from typing import Annotated, NamedTuple

import pyarrow as pa

from schemas.table import Column, Table, declare


class ScoreRow(NamedTuple):
    """One measure of one topic under one labelling."""

    tag: Annotated[str, Column(pa.string(), "Name of the run")]
    topic_id: Annotated[int, Column(pa.int64(), "corpus_id of the survey")]
    labels: Annotated[str, Column(pa.string(), "`graded` or `influential`")]
    measure: Annotated[str, Column(pa.string(), "Measure's name as in trec_eval, e.g. `recall_100`")]
    value: Annotated[float | None, Column(pa.float64(), "Null: the topic cannot be evaluated under these labels")]


SCORES = declare(
    Table("scores", ScoreRow, key=("tag", "topic_id", "labels", "measure"), order=("labels", "measure", "topic_id"))
)


class SummaryRow(NamedTuple):
    """One measure of a run over a group of topics."""

    tag: Annotated[str, Column(pa.string(), "Name of the run")]
    labels: Annotated[str, Column(pa.string(), "`graded` or `influential`")]
    measure: Annotated[str, Column(pa.string(), "Measure's name as in trec_eval")]
    group: Annotated[str, Column(pa.string(), "`all`, or `field:<field of study>`")]
    topics: Annotated[int, Column(pa.int32(), "Topics in the mean; a topic without results counts 0")]
    covered: Annotated[int, Column(pa.int32(), "Of those, topics whose outcome is `scored`")]
    mean: Annotated[float | None, Column(pa.float64(), "Over all topics of the group")]
    low: Annotated[float | None, Column(pa.float64(), "Lower end of the 95 % bootstrap interval over topics")]
    high: Annotated[float | None, Column(pa.float64(), "Upper end")]
    mean_evaluated: Annotated[float | None, Column(pa.float64(), "Over the topics that have results")]
    fallbacks: Annotated[int, Column(pa.int32(), "Topics for which something stood in for a failed model call")]
    mean_without_fallbacks: Annotated[float | None, Column(pa.float64(), "Over the other topics")]


SUMMARIES = declare(
    Table("summaries", SummaryRow, key=("tag", "labels", "measure", "group"), order=("labels", "measure", "group"))
)
