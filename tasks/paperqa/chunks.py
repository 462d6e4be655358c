"""The stage that cuts papers into passages for retrieval."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from schemas.settings import Settings
from schemas.tables.paperqa_papers import PAPERQA_CHUNKS
from tasks.store.parquet import write_table
from tasks.store.shard import Shard
from tasks.store.stage import stage
from tasks.store.workspace import Workspace

Row = dict[str, Any]

SHARD_IDS = 2**32
"""Range of passage numbers reserved for each shard, so that numbers do not depend on other shards."""

_BREAKS = ("\n\n", "\n", ". ", " ")
_TAGS = re.compile(r"<[^>]*>")


class ChunkSettings(Settings):
    """How papers are cut."""

    characters: int = Field(default=512, ge=64, le=8192, description="Longest passage, in characters; none overlap.")


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
    def rows(prefix: str) -> list[Row]:
        return pq.read_table(folder / f"{prefix}-{shard.name}.parquet").to_pylist()

    papers = rows("part")
    items: dict[str, list[Row]] = {paper["paper_id"]: [] for paper in papers}
    for paper in papers:
        items[paper["paper_id"]] += _passages("abstract", None, None, paper["abstract"], most)
    for row in rows("sections"):
        items[row["paper_id"]] += _passages("text", row["title"], row["page"], row["text"] or row["title"], most)
    for row in rows("tables"):
        text = f"{row['caption']}\n{_TAGS.sub(' ', row['html'])}"
        items[row["paper_id"]] += _passages("table", None, row["page"], text, most)
    for row in rows("figures"):
        items[row["paper_id"]] += _passages("figure", None, row["page"], row["caption"], most)
    for row in rows("equations"):
        items[row["paper_id"]] += _passages("equation", None, row["page"], row["text"], most)
    found = [
        {"corpus_id": 0, "title": paper["title"], "paper_id": paper["paper_id"], **item}
        for paper in papers
        for item in items[paper["paper_id"]]
    ]
    for place, row in enumerate(found, int(shard.name) * SHARD_IDS):
        row["corpus_id"] = place
    table = pa.Table.from_pylist(found, PAPERQA_CHUNKS.arrow)
    shard.counts.read, shard.counts.kept = len(papers), table.num_rows
    write_table(shard.file(f"part-{shard.name}.parquet"), PAPERQA_CHUNKS, table)


def _passages(kind: str, section: str | None, page: int | None, text: str, most: int) -> Iterator[Row]:
    for piece in split_text(text, most):
        yield {"kind": kind, "section": section, "page": page, "abstract": piece}


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
