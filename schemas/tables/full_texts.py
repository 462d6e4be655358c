"""Full texts (`s2orc`, `s2orc_v2`), decoded from annotation spans and kept apart from the papers' metadata."""

from typing import Annotated, NamedTuple

import pyarrow as pa

from schemas.table import Column, Table, declare

SECTION = pa.struct([pa.field("number", pa.string()), pa.field("heading", pa.string())])
PARAGRAPH = pa.struct([pa.field("section", pa.int32()), pa.field("text", pa.string())])


class FullTextRow(NamedTuple):
    """The body of one paper: sections and paragraphs in reading order."""

    corpus_id: Annotated[int, Column(pa.int64(), "Semantic Scholar's id of the paper", source="corpusid")]
    title: Annotated[str | None, Column(pa.string(), "Title by the parser", source="annotations.title / title")]
    abstract: Annotated[str | None, Column(pa.string(), "Abstract by the parser", source="annotations.abstract")]
    sections: Annotated[
        list[tuple[str | None, str]],
        Column(pa.list_(SECTION), "Headers; `number` as printed, null if none", source="sectionheader"),
    ]
    paragraphs: Annotated[
        list[tuple[int, str]],
        Column(
            pa.list_(PARAGRAPH),
            "Paragraphs; `section` is the index of the header before it, -1 before the first",
            source="paragraph",
        ),
    ]


FULL_TEXTS = declare(Table("full_texts", FullTextRow, key=("corpus_id",), order=("corpus_id",)))
