"""Full texts (`s2orc`, `s2orc_v2`), decoded from annotation spans and kept apart from the papers' metadata."""

import pyarrow as pa

from schemas.table import Column, Table, declare

SECTION = pa.struct([pa.field("number", pa.string()), pa.field("heading", pa.string())])
PARAGRAPH = pa.struct([pa.field("section", pa.int32()), pa.field("text", pa.string())])

FULL_TEXTS = declare(
    Table(
        "full_texts",
        "The body of one paper: sections and paragraphs in reading order.",
        (
            Column("corpus_id", pa.int64(), "Semantic Scholar's id of the paper", source="corpusid"),
            Column("title", pa.string(), "Title by the parser", nullable=True, source="annotations.title / title"),
            Column(
                "abstract",
                pa.string(),
                "Abstract by the parser",
                nullable=True,
                source="annotations.abstract",
            ),
            Column("sections", pa.list_(SECTION), "Headers; `number` as printed, null if none", source="sectionheader"),
            Column(
                "paragraphs",
                pa.list_(PARAGRAPH),
                "Paragraphs; `section` is the index of the header before it, -1 before the first",
                source="paragraph",
            ),
        ),
        key=("corpus_id",),
        order=("corpus_id",),
    )
)
