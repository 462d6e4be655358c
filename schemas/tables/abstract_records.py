"""Rows of a release's `abstracts` files, as read."""

from typing import Annotated, NamedTuple

import pyarrow as pa

from schemas.table import Column, Table, declare


class AbstractRecordRow(NamedTuple):
    """The abstract of one paper; the last record of a corpus_id wins."""

    corpus_id: Annotated[int, Column(pa.int64(), "Semantic Scholar's id of the paper", source="corpusid")]
    abstract: Annotated[str, Column(pa.string(), "Abstract; blank ones are dropped", source="abstract")]


ABSTRACT_RECORDS = declare(Table("abstract_records", AbstractRecordRow, key=("corpus_id",), order=("corpus_id",)))
