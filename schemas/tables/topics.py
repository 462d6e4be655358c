"""Topics: accepted surveys as information needs, kept or excluded with the reason."""

import pyarrow as pa

from schemas.table import Column, Table, declare

TOPICS = declare(
    Table(
        "topics",
        "One accepted survey; only rows with outcome `kept` are evaluated.",
        (
            Column("topic_id", pa.int64(), "corpus_id of the survey"),
            Column("title", pa.string(), "The information need: all that a system is told"),
            Column("horizon", pa.date32(), "Documents must be published before it", nullable=True),
            Column("horizon_precision", pa.string(), "`day`, `month`, `year` or `none`"),
            Column("fields_of_study", pa.list_(pa.string()), "Of the survey"),
            Column("references", pa.int32(), "All references, matched or not"),
            Column("linked", pa.int32(), "References with a corpus_id"),
            Column("accessible", pa.int32(), "Linked references that are documents of the corpus"),
            Column("relevant", pa.int32(), "Accessible references left after the leakage rules: its qrels"),
            Column("influential", pa.int32(), "Of those, the influential ones"),
            Column("coverage", pa.float64(), "accessible / references", nullable=True),
            Column("outcome", pa.string(), "`kept`, `no_references`, `none_accessible`, `no_date`, `none_left`"),
        ),
        key=("topic_id",),
        order=("topic_id",),
    )
)
