"""Queries of a search benchmark."""

import pyarrow as pa

from schemas.table import Column, Table, declare

SEARCH_QUERIES = declare(
    Table(
        "search_queries",
        "One query of a test set.",
        (
            Column("query_key", pa.string(), "`<test set>/<key in its file>`"),
            Column("test_set", pa.string(), "Name of the file without its ending"),
            Column("text", pa.string(), "What is sent to an engine"),
            Column(
                "dimensions",
                pa.list_(pa.struct([pa.field("name", pa.string(), False), pa.field("value", pa.string(), False)])),
                "The query's settings as the file has them, unknown ones too, sorted by name",
            ),
        ),
        key=("query_key",),
    )
)
