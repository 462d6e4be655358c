"""The searchable corpus of an edition: what the indexes are built from."""

import pyarrow as pa

from schemas.table import Column, Table, declare

DOCUMENTS = declare(
    Table(
        "documents",
        "One paper that a system can retrieve.",
        (
            Column("corpus_id", pa.int64(), "Semantic Scholar's id of the paper"),
            Column("title", pa.string(), "Title", nullable=True),
            Column("abstract", pa.string(), "Abstract", nullable=True),
            Column("date", pa.date32(), "Publication date; null: never before any horizon", nullable=True),
            Column("fields_of_study", pa.list_(pa.string()), "Distinct categories, sorted"),
        ),
        key=("corpus_id",),
        order=("corpus_id",),
    )
)
