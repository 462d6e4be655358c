"""Rows of a release's `citations` files, as read."""

import pyarrow as pa

from schemas.table import Column, Table, declare

CITATION_RECORDS = declare(
    Table(
        "citation_records",
        "One citation edge; edges whose cited paper is unresolved are kept with null.",
        (
            Column("citing_corpus_id", pa.int64(), "The paper that cites", source="citingcorpusid"),
            Column("cited_corpus_id", pa.int64(), "The paper cited", nullable=True, source="citedcorpusid"),
            Column("is_influential", pa.bool_(), "Semantic Scholar's flag", nullable=True, source="isinfluential"),
            Column(
                "citation_id",
                pa.int64(),
                "Id of the edge; older releases lack it",
                nullable=True,
                source="citationid",
            ),
        ),
        key=("citation_id", "citing_corpus_id", "cited_corpus_id"),
        order=("citing_corpus_id", "cited_corpus_id", "citation_id"),
    )
)
