"""The stage that cuts papers into passages for retrieval."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pydantic import Field

from schemas.settings import Settings
from schemas.table import RowT, Table
from schemas.tables.paperqa_papers import (
    PAPERQA_CHUNKS,
    PAPERQA_EQUATIONS,
    PAPERQA_FIGURES,
    PAPERQA_PAPERS,
    PAPERQA_SECTIONS,
    PAPERQA_TABLES,
    PaperqaChunkRow,
)
from tasks.store.parquet import read_table, write_rows
from tasks.store.shard import Shard
from tasks.store.stage import stage
from tasks.store.workspace import Workspace

SHARD_IDS = 2**32
"""Range of passage numbers reserved for each shard, so that numbers do not depend on other shards."""

_BREAKS = ("\n\n", "\n", ". ", " ")
_TAGS = re.compile(r"<[^>]*>")


class ChunkSettings(Settings):
    """How papers are cut."""

    characters: int = Field(default=512, ge=64, le=8192, description="Longest passage, in characters; none overlap.")


class _Passage(NamedTuple):
    """A passage of a paper, with the heading above it and its page."""

    text: str
    kind: str
    section: str | None
    page: int | None


@stage("paperqa_chunks", version=1, settings=ChunkSettings, after="paperqa_store")
def paperqa_chunks(work: Workspace[ChunkSettings]) -> None:
    """Writes PAPERQA_CHUNKS: abstracts, section texts, tables, captions and equations; a shard per shard of papers.

    Input: `papers`, a dataset of stage `paperqa_store`.

    Source:
        NeuSym-RAG's chunks: at most 512 characters, cut where paragraphs, lines, sentences or words end, no overlap.

    Deviates:
        Upstream cuts pages; the published processed data holds sections, which are cut here.
    """
    dataset = work.dataset("papers")
    for shard in work.pending([path.stem.removeprefix("part-") for path in dataset.files()]):
        with shard:
            _write_chunks(shard, dataset.folder, work.settings.characters)


def _write_chunks(shard: Shard, folder: Path, most: int) -> None:
    def rows(prefix: str, table: Table[RowT]) -> list[RowT]:
        return table.rows(read_table(folder / f"{prefix}-{shard.name}.parquet"))

    papers = rows("part", PAPERQA_PAPERS)
    passages: dict[str, list[_Passage]] = {paper.paper_id: [] for paper in papers}

    def add(paper_id: str, kind: str, text: str, page: int | None = None, section: str | None = None) -> None:
        passages[paper_id] += (_Passage(piece, kind, section, page) for piece in split_text(text, most))

    for paper in papers:
        add(paper.paper_id, "abstract", paper.abstract)
    for section in rows("sections", PAPERQA_SECTIONS):
        add(section.paper_id, "text", section.text or section.title, section.page, section.title)
    for table in rows("tables", PAPERQA_TABLES):
        add(table.paper_id, "table", f"{table.caption}\n{_TAGS.sub(' ', table.html)}", table.page)
    for figure in rows("figures", PAPERQA_FIGURES):
        add(figure.paper_id, "figure", figure.caption, figure.page)
    for equation in rows("equations", PAPERQA_EQUATIONS):
        add(equation.paper_id, "equation", equation.text, equation.page)
    found = ((paper, passage) for paper in papers for passage in passages[paper.paper_id])
    chunks = [
        PaperqaChunkRow(number, paper.title, passage.text, paper.paper_id, *passage[1:])
        for number, (paper, passage) in enumerate(found, int(shard.name) * SHARD_IDS)
    ]
    shard.counts.read, shard.counts.kept = len(papers), len(chunks)
    write_rows(shard.file(f"part-{shard.name}.parquet"), PAPERQA_CHUNKS, chunks)


def split_text(text: str, most: int) -> Iterator[str]:
    """Splits a text into pieces of at most `most` characters that together hold every word in order; none is blank.

    Each piece ends at the end of a paragraph, else of a line, a sentence or a word, within its last three quarters.
    """
    rest = text.strip()
    while len(rest) > most:
        window = rest[:most]
        ends = (at + len(mark) for mark in _BREAKS if (at := window.rfind(mark)) >= most // 4)
        end = next(ends, most)
        yield rest[:end].strip()
        rest = rest[end:].strip()
    if rest:
        yield rest
