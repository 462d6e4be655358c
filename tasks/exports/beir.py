"""BEIR's files: corpus, queries, judgments."""

from collections.abc import Iterator
from pathlib import Path

from tasks.exports.card import write_card
from tasks.exports.edition import Edition
from tasks.exports.exporter import exporter, write_lines
from tasks.exports.public import asked_records, document_batches, has_only_questions, json_line, write_questions


@exporter("beir", "The files of BEIR: corpus.jsonl, queries.jsonl, qrels/test.tsv, with a data card.", parts=True)
class BeirExporter:
    """Writes `corpus.jsonl`, `queries.jsonl`, `qrels/test.tsv`, `README.md` and, of AirQA, `questions.jsonl`.

    Horizons and instructions are members of `metadata`, which BEIR's own loader passes over. Without texts, `title` and
    `text` of documents are empty.

    Source: https://github.com/beir-cellar/beir, beir/datasets/data_loader.py.
    """

    def write(self, edition: Edition, folder: Path) -> list[Path]:
        """Writes the files and returns their paths.

        Raises:
            UsageError: The edition has no topics, documents or surveys.
        """
        written = [write_card(edition, folder), *write_questions(edition, folder)]
        if has_only_questions(edition):
            return written
        if edition.part.labelled:
            written.append(write_lines(folder / "qrels" / "test.tsv", _qrels(edition)))
        queries = write_lines(folder / "queries.jsonl", _queries(edition))
        return [*written, queries, write_lines(folder / "corpus.jsonl", _corpus(edition))]


def _queries(edition: Edition) -> Iterator[str]:
    for asked in asked_records(edition):
        told = {"horizon": asked["horizon"], "instructions": asked["instructions"]}
        yield json_line({"_id": str(asked["topic_id"]), "text": asked["title"], "metadata": told})


def _corpus(edition: Edition) -> Iterator[str]:
    for batch in document_batches(edition):
        for document in batch:
            known = {"survey": document.survey} | ({"date": document.date} if edition.part.texts else {})
            texts = {"title": document.title or "", "text": document.abstract or ""}
            yield json_line({"_id": str(document.corpus_id), **texts, "metadata": known})


def _qrels(edition: Edition) -> Iterator[str]:
    yield "query-id\tcorpus-id\tscore"
    yield from (f"{topic}\t{document}\t{label}" for topic, document, label in edition.judgments().iter_rows())
