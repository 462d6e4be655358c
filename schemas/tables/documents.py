"""The searchable corpus of an edition: what the indexes are built from."""

from datetime import date
from typing import Annotated, NamedTuple

import pyarrow as pa

from schemas.table import Column, Table, declare


class DocumentRow(NamedTuple):
    """One paper that a system can retrieve."""

    corpus_id: Annotated[int, Column(pa.int64(), "Semantic Scholar's id of the paper")]
    title: Annotated[str | None, Column(pa.string(), "Title")]
    abstract: Annotated[str | None, Column(pa.string(), "Abstract")]
    date: Annotated[date | None, Column(pa.date32(), "Publication date; null: never before any horizon")]
    fields_of_study: Annotated[list[str], Column(pa.list_(pa.string()), "Distinct categories, sorted")]


DOCUMENTS = declare(Table("documents", DocumentRow, key=("corpus_id",), order=("corpus_id",)))


class DetailRow(NamedTuple):
    """What a document shows beside its text."""

    corpus_id: Annotated[int, Column(pa.int64(), "Semantic Scholar's id of the paper")]
    venue: Annotated[str | None, Column(pa.string(), "Venue's name")]
    authors: Annotated[list[str], Column(pa.list_(pa.string()), "Names in printed order")]


DETAILS = declare(Table("details", DetailRow, key=("corpus_id",), order=("corpus_id",)))
