"""The papers that questions are asked about, and what extraction found in them."""

from typing import Annotated, NamedTuple

import pyarrow as pa

from schemas.table import Column, Table, declare

PAPER = Column(pa.string(), "UUID of the paper")
PLACE = Column(pa.int32(), "Order within the paper, from 0")
PAGE = Column(pa.int32(), "1-based page", source="page_number")
BOX = Column(pa.list_(pa.float64()), "[x0, y0, x1, y1] on the page")


class PaperqaPaperRow(NamedTuple):
    """One paper of the library."""

    paper_id: Annotated[str, PAPER]
    title: Annotated[str, Column(pa.string(), "Title")]
    abstract: Annotated[str, Column(pa.string(), "Abstract")]
    authors: Annotated[list[str], Column(pa.list_(pa.string()), "Names in order")]
    conference: Annotated[str, Column(pa.string(), "Lower-case venue and year, as questions name it: acl2023")]
    conference_full: Annotated[str, Column(pa.string(), "Full name of the venue")]
    year: Annotated[int, Column(pa.int32(), "Year of the conference")]
    volume: Annotated[str | None, Column(pa.string(), "Volume title")]
    num_pages: Annotated[int, Column(pa.int32(), "Pages of the PDF; 0: not known")]
    tldr: Annotated[str, Column(pa.string(), "One-sentence summary")]
    keywords: Annotated[list[str], Column(pa.list_(pa.string()), "Keywords", source="tags")]
    bibtex: Annotated[str, Column(pa.string(), "Citation")]
    pdf_url: Annotated[str, Column(pa.string(), "Where the PDF can be had")]
    extraction: Annotated[
        str | None,
        Column(pa.string(), "What made the processed data: `published`, `pypdfium2`, `synthetic`; null: there is none"),
    ]


PAPERQA_PAPERS = declare(Table("paperqa_papers", PaperqaPaperRow, key=("paper_id",), order=("paper_id",)))


class PaperqaSectionRow(NamedTuple):
    """A section of a paper."""

    paper_id: Annotated[str, PAPER]
    place: Annotated[int, PLACE]
    title: Annotated[str, Column(pa.string(), "Heading")]
    level: Annotated[int, Column(pa.int32(), "1 is the highest")]
    page: Annotated[int | None, PAGE]
    text: Annotated[str, Column(pa.string(), "Text below the heading")]


PAPERQA_SECTIONS = declare(Table("paperqa_sections", PaperqaSectionRow, key=("paper_id", "place")))


class PaperqaTableRow(NamedTuple):
    """A table of a paper."""

    paper_id: Annotated[str, PAPER]
    place: Annotated[int, PLACE]
    caption: Annotated[str, Column(pa.string(), "Caption")]
    html: Annotated[str, Column(pa.string(), "As HTML")]
    page: Annotated[int | None, PAGE]
    bbox: Annotated[list[float] | None, BOX]


PAPERQA_TABLES = declare(Table("paperqa_tables", PaperqaTableRow, key=("paper_id", "place")))


class PaperqaFigureRow(NamedTuple):
    """A figure of a paper."""

    paper_id: Annotated[str, PAPER]
    place: Annotated[int, PLACE]
    caption: Annotated[str, Column(pa.string(), "Caption")]
    page: Annotated[int | None, PAGE]
    bbox: Annotated[list[float] | None, BOX]


PAPERQA_FIGURES = declare(Table("paperqa_figures", PaperqaFigureRow, key=("paper_id", "place")))


class PaperqaEquationRow(NamedTuple):
    """A displayed equation of a paper."""

    paper_id: Annotated[str, PAPER]
    place: Annotated[int, PLACE]
    text: Annotated[str, Column(pa.string(), "LaTeX with delimiters")]
    page: Annotated[int | None, PAGE]


PAPERQA_EQUATIONS = declare(Table("paperqa_equations", PaperqaEquationRow, key=("paper_id", "place")))


class PaperqaReferenceRow(NamedTuple):
    """An entry of a paper's bibliography."""

    paper_id: Annotated[str, PAPER]
    place: Annotated[int, PLACE]
    text: Annotated[str, Column(pa.string(), "As printed")]


PAPERQA_REFERENCES = declare(Table("paperqa_references", PaperqaReferenceRow, key=("paper_id", "place")))


class PaperqaProblemRow(NamedTuple):
    """A metadata or processed-data file that was not used, and why."""

    file: Annotated[str, Column(pa.string(), "Name of the file")]
    reason: Annotated[str, Column(pa.string(), "`bad_metadata`, `bad_processed`, `no_metadata`, `other_paper`, ...")]
    message: Annotated[str, Column(pa.string(), "What is wrong")]


PAPERQA_PROBLEMS = declare(Table("paperqa_problems", PaperqaProblemRow, key=("file", "reason")))


class PaperqaChunkRow(NamedTuple):
    """A passage that can be retrieved."""

    corpus_id: Annotated[int, Column(pa.int64(), "Number of the passage, under the name that the index stages read")]
    title: Annotated[str, Column(pa.string(), "Title of the paper")]
    abstract: Annotated[str, Column(pa.string(), "Text of the passage, under the name that the index stages read")]
    paper_id: Annotated[str, PAPER]
    kind: Annotated[str, Column(pa.string(), "`abstract`, `text`, `table`, `figure`, `equation`")]
    section: Annotated[str | None, Column(pa.string(), "Heading above it")]
    page: Annotated[int | None, PAGE]


PAPERQA_CHUNKS = declare(Table("paperqa_chunks", PaperqaChunkRow, key=("corpus_id",), order=("corpus_id",)))
