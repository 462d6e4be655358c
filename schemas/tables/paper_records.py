"""Rows of a release's `papers` files, as read."""

from typing import Annotated, NamedTuple

import pyarrow as pa

from schemas.table import Column, Table, declare


class PaperRecordRow(NamedTuple):
    """One paper of a release, as its `papers` record says; the last record of a corpus_id wins."""

    corpus_id: Annotated[int, Column(pa.int64(), "Semantic Scholar's id of the paper", source="corpusid")]
    title: Annotated[str | None, Column(pa.string(), "Title as printed", source="title")]
    authors: Annotated[list[str], Column(pa.list_(pa.string()), "Names in printed order", source="authors[].name")]
    venue: Annotated[str | None, Column(pa.string(), "Venue's name", source="venue")]
    year: Annotated[int | None, Column(pa.int32(), "Year of publication", unit="year", source="year")]
    publication_date: Annotated[str | None, Column(pa.string(), "Date as given", source="publicationdate")]
    fields_of_study: Annotated[
        list[str], Column(pa.list_(pa.string()), "Distinct categories", source="s2fieldsofstudy")
    ]
    publication_types: Annotated[
        list[str], Column(pa.list_(pa.string()), "Kinds of publication", source="publicationtypes")
    ]
    reference_count: Annotated[int | None, Column(pa.int32(), "Papers it cites", source="referencecount")]
    citation_count: Annotated[int | None, Column(pa.int32(), "Papers that cite it", source="citationcount")]
    influential_citation_count: Annotated[
        int | None, Column(pa.int32(), "Papers that cite it as influential", source="influentialcitationcount")
    ]
    doi: Annotated[str | None, Column(pa.string(), "Digital object identifier", source="externalids.DOI")]
    arxiv: Annotated[str | None, Column(pa.string(), "arXiv id", source="externalids.ArXiv")]
    url: Annotated[str | None, Column(pa.string(), "Page of the paper", source="url")]


PAPER_RECORDS = declare(Table("paper_records", PaperRecordRow, key=("corpus_id",), order=("corpus_id",)))
