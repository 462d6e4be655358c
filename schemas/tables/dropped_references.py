"""References of topics that did not become qrels, each with the first rule that it broke."""

from typing import Annotated, NamedTuple

import pyarrow as pa

from schemas.table import Column, Table, declare


class DroppedReferenceRow(NamedTuple):
    """One linked reference of an accepted survey that is not in the qrels."""

    topic_id: Annotated[int, Column(pa.int64(), "corpus_id of the survey")]
    corpus_id: Annotated[int, Column(pa.int64(), "The reference")]
    reason: Annotated[
        str,
        Column(
            pa.string(),
            "`not_in_corpus`, `self`, `survey`, `no_date`, `later` (not before the horizon), `topic_excluded`",
        ),
    ]


DROPPED_REFERENCES = declare(
    Table("dropped_references", DroppedReferenceRow, key=("topic_id", "corpus_id"), order=("topic_id", "corpus_id"))
)
