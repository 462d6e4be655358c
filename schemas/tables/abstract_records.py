"""Rows of a release's `abstracts` files, as read."""

import pyarrow as pa

from schemas.table import Column, Table, declare

ABSTRACT_RECORDS = declare(
    Table(
        "abstract_records",
        "The abstract of one paper; the last record of a corpus_id wins.",
        (
            Column("corpus_id", pa.int64(), "Semantic Scholar's id of the paper", source="corpusid"),
            Column("abstract", pa.string(), "Abstract; blank ones are dropped", source="abstract"),
        ),
        key=("corpus_id",),
        order=("corpus_id",),
    )
)
