"""Papers of an edition: metadata, abstract, and the publication date that decides what a topic may see."""

import pyarrow as pa

from schemas.table import Column, Table, declare

PAPERS = declare(
    Table(
        "papers",
        "One paper: record and abstract joined, date resolved.",
        (
            Column("corpus_id", pa.int64(), "Semantic Scholar's id of the paper"),
            Column("title", pa.string(), "Title, trimmed", nullable=True),
            Column("abstract", pa.string(), "From `abstracts`, else the parser's", nullable=True),
            Column("has_full_text", pa.bool_(), "A full text with at least one paragraph is in the release"),
            Column("date", pa.date32(), "Resolved publication date; null: not known", nullable=True),
            Column("date_precision", pa.string(), "`day`, `month`, `year` or `none`: how much of `date` was given"),
            Column("year", pa.int32(), "Year as given", nullable=True, unit="year"),
            Column("venue", pa.string(), "Venue's name", nullable=True),
            Column("authors", pa.list_(pa.string()), "Names in printed order"),
            Column("fields_of_study", pa.list_(pa.string()), "Distinct categories, sorted"),
            Column("publication_types", pa.list_(pa.string()), "Kinds of publication"),
            Column("reference_count", pa.int32(), "Papers it cites, as given", nullable=True),
            Column("citation_count", pa.int32(), "Papers that cite it, as given", nullable=True),
            Column("doi", pa.string(), "Digital object identifier", nullable=True),
            Column("arxiv", pa.string(), "arXiv id", nullable=True),
            Column("url", pa.string(), "Page of the paper", nullable=True),
        ),
        key=("corpus_id",),
        order=("corpus_id",),
    )
)
