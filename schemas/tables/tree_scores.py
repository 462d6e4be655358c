"""Scores of built trees against gold mind-maps: every measure of every topic, its summary, and which headings met."""

from typing import Annotated, NamedTuple

import pyarrow as pa

from schemas.table import Column, Table, declare


def distance_measure(threshold: float) -> str:
    """Name of the tree semantic distance at a threshold."""
    return f"tsd_{threshold:g}"


TAG = Column(pa.string(), "Name of the system")
TOPIC = Column(pa.int64(), "corpus_id of the survey")
MEASURE = Column(pa.string(), "`hsr`, `her` (FLAIR's entities), `her_fallback` (spelling rules), `ted`, `tsd_0.8`, ...")
ENCODER = Column(pa.string(), "Sentence encoder that the measure rests on; null: none")


class TreeScoreRow(NamedTuple):
    """One measure of the tree of one topic."""

    tag: Annotated[str, TAG]
    topic_id: Annotated[int, TOPIC]
    measure: Annotated[str, MEASURE]
    value: Annotated[float | None, Column(pa.float64(), "Null: the measure does not exist for this topic")]
    encoder: Annotated[str | None, ENCODER]


TREE_SCORES = declare(
    Table("tree_scores", TreeScoreRow, key=("tag", "topic_id", "measure"), order=("topic_id", "measure"))
)


class TreeSummaryRow(NamedTuple):
    """One measure of a system over all topics that have a mind-map."""

    tag: Annotated[str, TAG]
    measure: Annotated[str, MEASURE]
    encoder: Annotated[str | None, ENCODER]
    topics: Annotated[
        int, Column(pa.int32(), "Topics in the mean; without tree recalls are 0, distances the gold's size")
    ]
    covered: Annotated[int, Column(pa.int32(), "Of those, topics whose outcome is `scored`")]
    mean: Annotated[float | None, Column(pa.float64(), "Over all those topics")]
    low: Annotated[float | None, Column(pa.float64(), "Lower end of the 95 % bootstrap interval over topics")]
    high: Annotated[float | None, Column(pa.float64(), "Upper end")]
    mean_evaluated: Annotated[float | None, Column(pa.float64(), "Over the topics whose outcome is `scored`")]


TREE_SUMMARIES = declare(Table("tree_summaries", TreeSummaryRow, key=("tag", "measure"), order=("measure",)))


class HeadingMatchRow(NamedTuple):
    """A heading with its most similar heading of the other tree, where that exceeds the threshold or is equal."""

    tag: Annotated[str, TAG]
    topic_id: Annotated[int, TOPIC]
    side: Annotated[str, Column(pa.string(), "Whose heading it is: `gold` or `built`")]
    label: Annotated[str, Column(pa.string(), "The heading")]
    match: Annotated[str, Column(pa.string(), "The other tree's heading")]
    similarity: Annotated[float, Column(pa.float64(), "Cosine of the two")]


HEADING_MATCHES = declare(
    Table(
        "heading_matches",
        HeadingMatchRow,
        key=("tag", "topic_id", "side", "label"),
        order=("topic_id", "side", "label"),
    )
)
