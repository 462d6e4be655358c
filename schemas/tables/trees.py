"""Trees that a builder made: what a system of the organization task returned."""

import pyarrow as pa

from schemas.table import Column, Table, declare

TREES = declare(
    Table(
        "trees",
        "The tree that a builder made for one topic, and how it ended.",
        (
            Column("tag", pa.string(), "Name of the system: builder and where its references are from"),
            Column("topic_id", pa.int64(), "corpus_id of the survey"),
            Column("outcome", pa.string(), "`scored`, `empty`, `failed`, `over_budget`, `refused`"),
            Column("note", pa.string(), "Why, when it is not `scored`", nullable=True),
            Column("fallback", pa.bool_(), "A fallback stood in for a failed model call"),
            Column("references", pa.int32(), "References that the builder was given"),
            Column("tree", pa.string(), "As in `mindmaps`; null: there is none", nullable=True),
            Column("nodes", pa.int32(), "Number of nodes; 0 without tree"),
            Column("depth", pa.int32(), "Number of levels; 0 without tree"),
        ),
        key=("tag", "topic_id"),
        order=("topic_id",),
    )
)
