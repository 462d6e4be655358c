"""Files for trec_eval, ir_measures, ranx, Anserini: qrels, runs, topics."""

from pathlib import Path

import polars as pl

from tasks.exports.exporter import Exported, exporter, write_lines
from tasks.ranking.evaluated_topics import evaluated_topics


@exporter("trec", "Standard TREC text files: qrels (4 columns), a run a file (6 columns), topics (id, tab, title).")
class TrecExporter:
    """Writes `qrels.txt`, `topics.tsv` and `runs/<tag>.txt`; scores keep every digit, so order and scores survive."""

    def write(self, exported: Exported, folder: Path) -> list[Path]:
        """Writes the files and returns their paths."""
        qrels = pl.read_parquet(exported.topics.files("qrels")).sort("topic_id", "corpus_id")
        topics = evaluated_topics(exported.topics)
        written = [
            write_lines(
                folder / "qrels.txt", (f"{topic} 0 {document} {label}" for topic, document, label in qrels.iter_rows())
            ),
            write_lines(
                folder / "topics.tsv",
                (
                    f"{topic}\t{' '.join(title.split())}"
                    for topic, title in topics.select("topic_id", "title").iter_rows()
                ),
            ),
        ]
        for tag, run in exported.tagged_runs().items():
            hits = pl.read_parquet(run.files(), columns=["topic_id", "corpus_id", "rank", "score"])
            lines = (
                f"{topic} Q0 {document} {rank} {score!r} {tag}"
                for topic, document, rank, score in hits.sort("topic_id", "rank").iter_rows()
            )
            written.append(write_lines(folder / "runs" / f"{tag}.txt", lines))
        return written
