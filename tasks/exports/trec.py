"""Files for trec_eval, ir_measures, ranx, Anserini: qrels, runs, topics."""

from pathlib import Path

import polars as pl

from tasks.exports.edition import RUN, Edition
from tasks.exports.exporter import exporter, write_lines
from tasks.exports.public import asked_records, json_line, trec_qrels, write_questions


@exporter(
    "trec",
    "Standard TREC text files: qrels (4 columns), a run a file (6 columns), topics (id, tab, title).",
    parts=True,
)
class TrecExporter:
    """Writes `qrels.txt`, `topics.tsv` and `runs/<tag>.txt`; scores keep every digit, so order and scores survive.

    With a part of the topics also `topics.jsonl` and `questions.jsonl`, which say what is asked.
    """

    def write(self, edition: Edition, folder: Path) -> list[Path]:
        """Writes the files and returns their paths."""
        titles = edition.topics().select("topic_id", "title").iter_rows()
        return [
            *([write_lines(folder / "qrels.txt", trec_qrels(edition))] if edition.part.labelled else []),
            write_lines(folder / "topics.tsv", (f"{topic}\t{' '.join(title.split())}" for topic, title in titles)),
            *(_write_asked(edition, folder) if edition.part.split != "all" else []),
            *(_write_run(edition, tag, folder / "runs" / f"{tag}.txt") for tag in edition.runs()),
        ]


def _write_asked(edition: Edition, folder: Path) -> list[Path]:
    asked = write_lines(folder / "topics.jsonl", map(json_line, asked_records(edition)))
    return [asked, *write_questions(edition, folder)]


def _write_run(edition: Edition, tag: str, path: Path) -> Path:
    hits = pl.read_parquet(edition.dataset(RUN + tag).files(), columns=["topic_id", "corpus_id", "rank", "score"])
    lines = (
        f"{topic} Q0 {document} {rank} {score!r} {tag}"
        for topic, document, rank, score in edition.of_part(hits).sort("topic_id", "rank").iter_rows()
    )
    return write_lines(path, lines)
