"""Scores of built trees against gold mind-maps: every measure of every topic, its summary, and which headings met."""

import pyarrow as pa

from schemas.table import Column, Table, declare


def distance_measure(threshold: float) -> str:
    """Name of the tree semantic distance at a threshold."""
    return f"tsd_{threshold:g}"


TAG = Column("tag", pa.string(), "Name of the system")
TOPIC = Column("topic_id", pa.int64(), "corpus_id of the survey")
MEASURE = Column("measure", pa.string(), "`hsr`, `her` (`her_fallback` without FLAIR), `ted`, `tsd_0.8`, ...")
ENCODER = Column("encoder", pa.string(), "Sentence encoder that the measure rests on; null: none", nullable=True)

TREE_SCORES = declare(
    Table(
        "tree_scores",
        "One measure of the tree of one topic.",
        (
            TAG,
            TOPIC,
            MEASURE,
            Column("value", pa.float64(), "Null: the measure does not exist for this topic", nullable=True),
            ENCODER,
        ),
        key=("tag", "topic_id", "measure"),
        order=("topic_id", "measure"),
    )
)

TREE_SUMMARIES = declare(
    Table(
        "tree_summaries",
        "One measure of a system over all topics that have a mind-map.",
        (
            TAG,
            MEASURE,
            ENCODER,
            Column("topics", pa.int32(), "Topics in the mean; without tree recalls are 0, distances the gold's size"),
            Column("covered", pa.int32(), "Of those, topics whose outcome is `scored`"),
            Column("mean", pa.float64(), "Over all those topics", nullable=True),
            Column("low", pa.float64(), "Lower end of the 95 % bootstrap interval over topics", nullable=True),
            Column("high", pa.float64(), "Upper end", nullable=True),
            Column("mean_evaluated", pa.float64(), "Over the topics whose outcome is `scored`", nullable=True),
        ),
        key=("tag", "measure"),
        order=("measure",),
    )
)

HEADING_MATCHES = declare(
    Table(
        "heading_matches",
        "A heading with its most similar heading of the other tree, where that exceeds the threshold or is equal.",
        (
            TAG,
            TOPIC,
            Column("side", pa.string(), "Whose heading it is: `gold` or `built`"),
            Column("label", pa.string(), "The heading"),
            Column("match", pa.string(), "The other tree's heading"),
            Column("similarity", pa.float64(), "Cosine of the two"),
        ),
        key=("tag", "topic_id", "side", "label"),
        order=("topic_id", "side", "label"),
    )
)
