"""Queries of a search benchmark."""

from typing import Annotated, NamedTuple

import pyarrow as pa

from schemas.table import Column, Table, declare


class SearchQueryRow(NamedTuple):
    """One query of a test set."""

    query_key: Annotated[str, Column(pa.string(), "`<test set>/<key in its file>`")]
    test_set: Annotated[str, Column(pa.string(), "Name of the file without its ending")]
    text: Annotated[str, Column(pa.string(), "What is sent to an engine")]
    dimensions: Annotated[
        list[dict[str, str]],
        Column(
            pa.list_(pa.struct([pa.field("name", pa.string(), False), pa.field("value", pa.string(), False)])),
            "The query's settings as the file has them, unknown ones too, sorted by name",
        ),
    ]


SEARCH_QUERIES = declare(Table("search_queries", SearchQueryRow, key=("query_key",)))
