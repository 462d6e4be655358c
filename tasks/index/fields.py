"""Reads the text of one field of the documents, bucket by bucket."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from schemas.errors import BadInput
from schemas.identifiers import Field
from tasks.store.parquet import ParquetReader, count_rows, read_table
from tasks.store.workspace import Workspace

ROWS = 4096
"""Documents in memory at a time; of full texts a sixteenth as many."""


class Bucket(NamedTuple):
    """The files with the texts of one bucket of documents; full texts only for the field `text`."""

    documents: Path
    full_texts: Path | None = None

    @property
    def rows(self) -> int:
        """Number of documents, with or without the field."""
        return count_rows(self.documents)


class FieldText(NamedTuple):
    """The text of one document's field, never blank."""

    corpus_id: int
    text: str


def field_buckets(work: Workspace[Any], field: Field) -> list[Bucket]:
    """Returns the buckets of a stage's input `documents`, with those of `full_texts` for the field `text`.

    Raises:
        BadInput: The two datasets have different buckets.
    """
    documents = work.dataset("documents").files()
    if field != "text":
        return [Bucket(path) for path in documents]
    full_texts = work.dataset("full_texts").files()
    if len(documents) != len(full_texts):
        raise BadInput(
            f"stage {work.stage}: documents has {len(documents)} buckets, full_texts has {len(full_texts)}; "
            "build both with the same number of buckets"
        )
    return [Bucket(*paths) for paths in zip(documents, full_texts, strict=True)]


def field_texts(field: Field, bucket: Bucket) -> Iterator[FieldText]:
    """Yields the field of every document that has it, in the order of the file.

    Args:
        field: `title`; `abstract`, or the title where there is none; `title_abstract`, joined by `". "`; `text`: title,
            abstract, headings and paragraphs of the full text, one per line.
        bucket: The files to read.

    Source:
        The fields of the ResearchArena paper's retrievers; a document without the field is not in its index.
    """
    if field == "text":
        yield from _full_texts(bucket)
        return
    file = ParquetReader(bucket.documents)
    columns = ["corpus_id", "title"] if field == "title" else ["corpus_id", "title", "abstract"]
    for batch in file.iter_batches(ROWS, columns=columns):
        for corpus_id, *texts in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if text := _pick(field, *((text or "").strip() for text in texts)):
                yield FieldText(corpus_id, text)


def _pick(field: Field, title: str, abstract: str = "") -> str:
    if field == "abstract":
        return abstract or title
    return ". ".join(part for part in (title, abstract) if part)


def _full_texts(bucket: Bucket) -> Iterator[FieldText]:
    if bucket.full_texts is None:
        raise BadInput(f"{bucket.documents}: the field 'text' needs the bucket's file of full texts")
    wanted = read_table(bucket.documents, columns=["corpus_id"])["corpus_id"].to_numpy()
    for batch in ParquetReader(bucket.full_texts).iter_batches(ROWS // 16):
        kept = np.isin(batch["corpus_id"].to_numpy(), wanted)
        for row in batch.filter(kept).to_pylist():
            if text := _body(row):
                yield FieldText(row["corpus_id"], text)


def _body(row: dict[str, Any]) -> str:
    """Returns title, abstract, and each section's heading followed by its paragraphs, one per line."""
    lines = [row["title"], row["abstract"]]
    headings = [section["heading"] for section in row["sections"]]
    shown = -1
    for paragraph in row["paragraphs"]:
        lines += headings[shown + 1 : paragraph["section"] + 1]
        shown = max(shown, paragraph["section"])
        lines.append(paragraph["text"])
    lines += headings[shown + 1 :]
    return "\n".join(line.strip() for line in lines if line and line.strip())
