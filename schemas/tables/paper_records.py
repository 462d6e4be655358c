"""Rows of a release's `papers` files, as read."""

import pyarrow as pa

from schemas.table import Column, Table, declare

PAPER_RECORDS = declare(
    Table(
        "paper_records",
        "One paper of a release, as its `papers` record says; the last record of a corpus_id wins.",
        (
            Column("corpus_id", pa.int64(), "Semantic Scholar's id of the paper", source="corpusid"),
            Column("title", pa.string(), "Title as printed", nullable=True, source="title"),
            Column("authors", pa.list_(pa.string()), "Names in printed order", source="authors[].name"),
            Column("venue", pa.string(), "Venue's name", nullable=True, source="venue"),
            Column("year", pa.int32(), "Year of publication", nullable=True, unit="year", source="year"),
            Column("publication_date", pa.string(), "Date as given", nullable=True, source="publicationdate"),
            Column("fields_of_study", pa.list_(pa.string()), "Distinct categories", source="s2fieldsofstudy"),
            Column("publication_types", pa.list_(pa.string()), "Kinds of publication", source="publicationtypes"),
            Column("reference_count", pa.int32(), "Papers it cites", nullable=True, source="referencecount"),
            Column("citation_count", pa.int32(), "Papers that cite it", nullable=True, source="citationcount"),
            Column(
                "influential_citation_count",
                pa.int32(),
                "Papers that cite it as influential",
                nullable=True,
                source="influentialcitationcount",
            ),
            Column("doi", pa.string(), "Digital object identifier", nullable=True, source="externalids.DOI"),
            Column("arxiv", pa.string(), "arXiv id", nullable=True, source="externalids.ArXiv"),
            Column("url", pa.string(), "Page of the paper", nullable=True, source="url"),
        ),
        key=("corpus_id",),
        order=("corpus_id",),
    )
)
