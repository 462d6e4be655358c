"""The papers that questions are asked about, and what extraction found in them."""

import pyarrow as pa

from schemas.table import Column, Table, declare

PAPER = Column("paper_id", pa.string(), "UUID of the paper")
PLACE = Column("place", pa.int32(), "Order within the paper, from 0")
PAGE = Column("page", pa.int32(), "1-based page", nullable=True, source="page_number")
BOX = Column("bbox", pa.list_(pa.float64()), "[x0, y0, x1, y1] on the page", nullable=True)

PAPERQA_PAPERS = declare(
    Table(
        "paperqa_papers",
        "One paper of the library.",
        (
            PAPER,
            Column("title", pa.string(), "Title"),
            Column("abstract", pa.string(), "Abstract"),
            Column("authors", pa.list_(pa.string()), "Names in order"),
            Column("conference", pa.string(), "Lower-case venue and year, as questions name it: acl2023"),
            Column("conference_full", pa.string(), "Full name of the venue"),
            Column("year", pa.int32(), "Year of the conference"),
            Column("volume", pa.string(), "Volume title", nullable=True),
            Column("num_pages", pa.int32(), "Pages of the PDF; 0: not known"),
            Column("tldr", pa.string(), "One-sentence summary"),
            Column("keywords", pa.list_(pa.string()), "Keywords", source="tags"),
            Column("bibtex", pa.string(), "Citation"),
            Column("pdf_url", pa.string(), "Where the PDF can be had"),
            Column(
                "extraction",
                pa.string(),
                "What made the processed data: `published`, `pypdfium2`, `synthetic`; null: there is none",
                nullable=True,
            ),
        ),
        key=("paper_id",),
        order=("paper_id",),
    )
)

PAPERQA_SECTIONS = declare(
    Table(
        "paperqa_sections",
        "A section of a paper.",
        (
            PAPER,
            PLACE,
            Column("title", pa.string(), "Heading"),
            Column("level", pa.int32(), "1 is the highest"),
            PAGE,
            Column("text", pa.string(), "Text below the heading"),
        ),
        key=("paper_id", "place"),
    )
)

PAPERQA_TABLES = declare(
    Table(
        "paperqa_tables",
        "A table of a paper.",
        (PAPER, PLACE, Column("caption", pa.string(), "Caption"), Column("html", pa.string(), "As HTML"), PAGE, BOX),
        key=("paper_id", "place"),
    )
)

PAPERQA_FIGURES = declare(
    Table(
        "paperqa_figures",
        "A figure of a paper.",
        (PAPER, PLACE, Column("caption", pa.string(), "Caption"), PAGE, BOX),
        key=("paper_id", "place"),
    )
)

PAPERQA_EQUATIONS = declare(
    Table(
        "paperqa_equations",
        "A displayed equation of a paper.",
        (PAPER, PLACE, Column("text", pa.string(), "LaTeX with delimiters"), PAGE),
        key=("paper_id", "place"),
    )
)

PAPERQA_REFERENCES = declare(
    Table(
        "paperqa_references",
        "An entry of a paper's bibliography.",
        (PAPER, PLACE, Column("text", pa.string(), "As printed")),
        key=("paper_id", "place"),
    )
)

PAPERQA_PROBLEMS = declare(
    Table(
        "paperqa_problems",
        "A metadata or processed-data file that was not used, and why.",
        (
            Column("file", pa.string(), "Name of the file"),
            Column("reason", pa.string(), "`bad_metadata`, `bad_processed`, `no_metadata`, `other_paper`, ..."),
            Column("message", pa.string(), "What is wrong"),
        ),
        key=("file", "reason"),
    )
)

PAPERQA_CHUNKS = declare(
    Table(
        "paperqa_chunks",
        "A passage that can be retrieved.",
        (
            Column("corpus_id", pa.int64(), "Number of the passage, under the name that the index stages read"),
            Column("title", pa.string(), "Title of the paper"),
            Column("abstract", pa.string(), "Text of the passage, under the name that the index stages read"),
            PAPER,
            Column("kind", pa.string(), "`abstract`, `text`, `table`, `figure`, `equation`"),
            Column("section", pa.string(), "Heading above it", nullable=True),
            PAGE,
        ),
        key=("corpus_id",),
        order=("corpus_id",),
    )
)
