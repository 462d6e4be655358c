"""Trees that a builder made: what a system of the organization task returned."""

from typing import Annotated, NamedTuple

import pyarrow as pa

from schemas.table import Column, Table, declare


class TreeRow(NamedTuple):
    """The tree that a builder made for one topic, and how it ended."""

    tag: Annotated[str, Column(pa.string(), "Name of the system: builder and where its references are from")]
    topic_id: Annotated[int, Column(pa.int64(), "corpus_id of the survey")]
    outcome: Annotated[str, Column(pa.string(), "`scored`, `empty`, `failed`, `over_budget`, `refused`")]
    note: Annotated[str | None, Column(pa.string(), "Why, when it is not `scored`")]
    fallback: Annotated[bool, Column(pa.bool_(), "A fallback stood in for a failed model call")]
    references: Annotated[int, Column(pa.int32(), "References that the builder was given")]
    tree: Annotated[str | None, Column(pa.string(), "As in `mindmaps`; null: there is none")]
    nodes: Annotated[int, Column(pa.int32(), "Number of nodes; 0 without tree")]
    depth: Annotated[int, Column(pa.int32(), "Number of levels; 0 without tree")]


TREES = declare(Table("trees", TreeRow, key=("tag", "topic_id"), order=("topic_id",)))
