"""Papers of an edition: metadata, abstract, and the publication date that decides what a topic may see."""

from datetime import date
from typing import Annotated, NamedTuple

import pyarrow as pa

from schemas.table import Column, Table, declare


class PaperRow(NamedTuple):
    """One paper: record and abstract joined, date resolved."""

    corpus_id: Annotated[int, Column(pa.int64(), "Semantic Scholar's id of the paper")]
    title: Annotated[str | None, Column(pa.string(), "Title, trimmed")]
    abstract: Annotated[str | None, Column(pa.string(), "From `abstracts`, else the parser's")]
    has_full_text: Annotated[bool, Column(pa.bool_(), "A full text with at least one paragraph is in the release")]
    date: Annotated[date | None, Column(pa.date32(), "Resolved publication date; null: not known")]
    date_precision: Annotated[
        str, Column(pa.string(), "`day`, `month`, `year` or `none`: how much of `date` was given")
    ]
    year: Annotated[int | None, Column(pa.int32(), "Year as given", unit="year")]
    venue: Annotated[str | None, Column(pa.string(), "Venue's name")]
    authors: Annotated[list[str], Column(pa.list_(pa.string()), "Names in printed order")]
    fields_of_study: Annotated[list[str], Column(pa.list_(pa.string()), "Distinct categories, sorted")]
    publication_types: Annotated[list[str], Column(pa.list_(pa.string()), "Kinds of publication")]
    reference_count: Annotated[int | None, Column(pa.int32(), "Papers it cites, as given")]
    citation_count: Annotated[int | None, Column(pa.int32(), "Papers that cite it, as given")]
    doi: Annotated[str | None, Column(pa.string(), "Digital object identifier")]
    arxiv: Annotated[str | None, Column(pa.string(), "arXiv id")]
    url: Annotated[str | None, Column(pa.string(), "Page of the paper")]


PAPERS = declare(Table("papers", PaperRow, key=("corpus_id",), order=("corpus_id",)))
