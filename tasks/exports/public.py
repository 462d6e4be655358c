"""What of an edition is for the public: what is asked, judgments, ids of documents, and texts where that is wished."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from tasks.exports.edition import Edition
from tasks.exports.exporter import write_lines
from tasks.paperqa.runs import read_questions
from tasks.store.parquet import ParquetReader
from tasks.submissions.topics import INSTRUCTIONS

ROWS = 65_536
"""Documents in memory at a time."""

_BREAKS = re.compile("[\x85\u2028\u2029]")
"""Characters at which some tools break lines, though JSON does not."""

LABELS = {1: "The survey cites the paper.", 2: "The survey cites the paper, and the citation is influential."}
"""What a judgment means."""

LICENCE = "https://creativecommons.org/publicdomain/zero/1.0/"
"""Licence of what is our own: topics, judgments, the choice of documents."""

TERMS = (
    "Ids are Semantic Scholar's corpus_ids. Titles of topics, and texts where this export holds them, come from the "
    "Semantic Scholar Academic Graph and S2ORC (ODC-By 1.0, https://www.semanticscholar.org/product/api/license); "
    "abstracts and full texts stay under the terms of their publishers. Judgments, splits and instructions are our own "
    "(CC0 1.0)."
)
"""What may be done with the data."""

RULES = (
    "For each topic, documents from its horizon on, other surveys and the survey itself must be removed from results "
    "before they are scored."
)
"""What keeps a score honest."""


class Document(NamedTuple):
    """A document as it leaves the house; what is not written is None."""

    corpus_id: int
    survey: bool
    title: str | None = None
    abstract: str | None = None
    date: str | None = None


def asked_records(edition: Edition) -> Iterator[dict[str, object]]:
    """Yields each topic with its title, its horizon as a day, and what a system is told to do."""
    for topic, title, horizon in edition.topics().select("topic_id", "title", "horizon").iter_rows():
        day = horizon.isoformat() if horizon else None
        yield {"topic_id": topic, "title": title, "horizon": day, "instructions": INSTRUCTIONS["discovery"]}


def question_records(edition: Edition) -> Iterator[dict[str, object]]:
    """Yields what systems see of AirQA's questions; none where the edition has no questions."""
    if "airqa/questions" in edition.datasets:
        for question in read_questions(edition.dataset("airqa/questions")):
            if edition.part.holds(question.uuid):
                yield {**question.model_dump(mode="json"), "instructions": INSTRUCTIONS["paperqa"]}


def has_only_questions(edition: Edition) -> bool:
    """Returns whether the edition is one of AirQA, with questions and no topics of surveys."""
    return "airqa/questions" in edition.datasets and "topics" not in edition.datasets


def write_questions(edition: Edition, folder: Path) -> list[Path]:
    """Writes `questions.jsonl` where the edition has questions; returns its path."""
    questions = list(map(json_line, question_records(edition)))
    return [write_lines(folder / "questions.jsonl", questions)] if questions else []


def json_line(record: dict[str, object]) -> str:
    """Returns a record as JSON that every tool takes for one line."""
    return _BREAKS.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(record, ensure_ascii=False))


def trec_qrels(edition: Edition) -> Iterator[str]:
    """Yields the judgments as lines of TREC qrels."""
    return (f"{topic} 0 {document} {label}" for topic, document, label in edition.judgments().iter_rows())


def document_batches(edition: Edition) -> Iterator[list[Document]]:
    """Yields the documents of the corpus in the order of the files, whichever part of the topics is written."""
    texts = edition.part.texts
    verdicts = edition.dataset("surveys").table(columns=["corpus_id", "accepted"])
    surveys = np.sort(verdicts["corpus_id"].to_numpy()[verdicts["accepted"].to_numpy()])
    columns = ["corpus_id", *(["title", "abstract", "date"] if texts else [])]
    for path in edition.dataset("documents").files():
        with ParquetReader(path) as file:
            for batch in file.iter_batches(ROWS, columns=columns):
                yield _documents(batch, surveys, texts)


def _documents(batch: pa.RecordBatch, surveys: NDArray[np.int64], texts: bool) -> list[Document]:
    ids = batch["corpus_id"].to_numpy()
    held = np.isin(ids, surveys).tolist()
    if not texts:
        return [Document(corpus_id, survey) for corpus_id, survey in zip(ids.tolist(), held, strict=True)]
    rows = zip(ids.tolist(), held, *(batch[name].to_pylist() for name in ("title", "abstract", "date")), strict=True)
    return [Document(i, s, title, abstract, day.isoformat() if day else None) for i, s, title, abstract, day in rows]


def mindmap_rows(edition: Edition) -> pl.DataFrame | None:
    """Returns topic_id and tree of the topics' mind-maps; None where they are not written, or there are none.

    They hold the headings of the surveys' own figures, so they count as texts; those of the private part stay.
    """
    part = edition.part
    if "mindmaps" not in edition.datasets or not part.texts or not part.labelled:
        return None
    maps = pl.read_parquet(edition.dataset("mindmaps").files()).select("topic_id", "tree").sort("topic_id")
    return edition.of_part(maps)
