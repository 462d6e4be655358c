"""References of topics that did not become qrels, each with the first rule that it broke."""

import pyarrow as pa

from schemas.table import Column, Table, declare

DROPPED_REFERENCES = declare(
    Table(
        "dropped_references",
        "One linked reference of an accepted survey that is not in the qrels.",
        (
            Column("topic_id", pa.int64(), "corpus_id of the survey"),
            Column("corpus_id", pa.int64(), "The reference"),
            Column(
                "reason",
                pa.string(),
                "`not_in_corpus`, `self`, `survey`, `no_date`, `later` (not before the horizon), `topic_excluded`",
            ),
        ),
        key=("topic_id", "corpus_id"),
        order=("topic_id", "corpus_id"),
    )
)
