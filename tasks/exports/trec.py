"""Files for trec_eval, ir_measures, ranx, Anserini: qrels, runs, topics."""

from pathlib import Path

import polars as pl

from tasks.exports.edition import RUN, Edition
from tasks.exports.exporter import exporter, write_lines


@exporter("trec", "Standard TREC text files: qrels (4 columns), a run a file (6 columns), topics (id, tab, title).")
class TrecExporter:
    """Writes `qrels.txt`, `topics.tsv` and `runs/<tag>.txt`; scores keep every digit, so order and scores survive."""

    def write(self, edition: Edition, folder: Path) -> list[Path]:
        """Writes the files and returns their paths."""
        qrels = pl.read_parquet(edition.dataset("topics").files("qrels")).sort("topic_id", "corpus_id")
        judged = (f"{topic} 0 {document} {label}" for topic, document, label in qrels.iter_rows())
        titles = edition.topics().select("topic_id", "title").iter_rows()
        return [
            write_lines(folder / "qrels.txt", judged),
            write_lines(folder / "topics.tsv", (f"{topic}\t{' '.join(title.split())}" for topic, title in titles)),
            *(_write_run(edition, tag, folder / "runs" / f"{tag}.txt") for tag in edition.runs()),
        ]


def _write_run(edition: Edition, tag: str, path: Path) -> Path:
    hits = pl.read_parquet(edition.dataset(RUN + tag).files(), columns=["topic_id", "corpus_id", "rank", "score"])
    lines = (
        f"{topic} Q0 {document} {rank} {score!r} {tag}"
        for topic, document, rank, score in hits.sort("topic_id", "rank").iter_rows()
    )
    return write_lines(path, lines)
