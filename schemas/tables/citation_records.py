"""Rows of a release's `citations` files, as read."""

from typing import Annotated, NamedTuple

import pyarrow as pa

from schemas.table import Column, Table, declare


class CitationRecordRow(NamedTuple):
    """One citation edge; edges whose cited paper is unresolved are kept with null."""

    citing_corpus_id: Annotated[int, Column(pa.int64(), "The paper that cites", source="citingcorpusid")]
    cited_corpus_id: Annotated[int | None, Column(pa.int64(), "The paper cited", source="citedcorpusid")]
    is_influential: Annotated[bool | None, Column(pa.bool_(), "Semantic Scholar's flag", source="isinfluential")]
    citation_id: Annotated[
        int | None, Column(pa.int64(), "Id of the edge; older releases lack it", source="citationid")
    ]


CITATION_RECORDS = declare(
    Table(
        "citation_records",
        CitationRecordRow,
        key=("citation_id", "citing_corpus_id", "cited_corpus_id"),
        order=("citing_corpus_id", "cited_corpus_id", "citation_id"),
    )
)
