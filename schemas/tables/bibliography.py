"""Bibliography entries of full texts, with the paper that Semantic Scholar matched and the mentions in the body."""

from typing import Annotated, NamedTuple

import pyarrow as pa

from schemas.table import Column, Table, declare


class BibliographyEntry(NamedTuple):
    """One entry of a paper's bibliography, in printed order."""

    corpus_id: Annotated[int, Column(pa.int64(), "The citing paper", source="corpusid")]
    position: Annotated[int, Column(pa.int32(), "Place of the entry in the bibliography, from 0")]
    entry_id: Annotated[str | None, Column(pa.string(), "Id of the entry inside the paper", source="bibentry.id")]
    entry: Annotated[str, Column(pa.string(), "Text of the entry", source="bibentry span")]
    title: Annotated[str | None, Column(pa.string(), "Title inside the entry", source="bibtitle span")]
    matched_corpus_id: Annotated[
        int | None, Column(pa.int64(), "The cited paper", source="matched_paper_id of the entry, else of a mention")
    ]
    mentions: Annotated[int, Column(pa.int32(), "Mentions in the body", source="bibref spans with its ref_id")]


BIBLIOGRAPHY = declare(
    Table("bibliography", BibliographyEntry, key=("corpus_id", "position"), order=("corpus_id", "position"))
)
