"""Bibliography entries of full texts, with the paper that Semantic Scholar matched and the mentions in the body."""

import pyarrow as pa

from schemas.table import Column, Table, declare

BIBLIOGRAPHY = declare(
    Table(
        "bibliography",
        "One entry of a paper's bibliography, in printed order.",
        (
            Column("corpus_id", pa.int64(), "The citing paper", source="corpusid"),
            Column("position", pa.int32(), "Place of the entry in the bibliography, from 0"),
            Column("entry_id", pa.string(), "Id of the entry inside the paper", nullable=True, source="bibentry.id"),
            Column("entry", pa.string(), "Text of the entry", source="bibentry span"),
            Column("title", pa.string(), "Title inside the entry", nullable=True, source="bibtitle span"),
            Column(
                "matched_corpus_id",
                pa.int64(),
                "The cited paper",
                nullable=True,
                source="matched_paper_id of the entry, else of a mention",
            ),
            Column("mentions", pa.int32(), "Mentions in the body", source="bibref spans with its ref_id"),
        ),
        key=("corpus_id", "position"),
        order=("corpus_id", "position"),
    )
)
