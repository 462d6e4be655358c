"""Files for ir_datasets, with the module that registers them."""

from collections.abc import Iterator
from pathlib import Path

from tasks.exports.card import render, write_card
from tasks.exports.edition import Edition
from tasks.exports.exporter import exporter, write_lines
from tasks.exports.public import (
    asked_records,
    document_batches,
    has_only_questions,
    json_line,
    trec_qrels,
    write_questions,
)


@exporter("ir_datasets", "Documents, queries and judgments with a module that registers them.", parts=True)
class IrDatasetsExporter:
    """Writes `documents.jsonl`, `queries.jsonl`, `qrels.txt`, `research_arena.py`, `README.md`, and AirQA's questions.

    With the folder on Python's path, `import research_arena` registers `research-arena/<edition>`, or
    `research-arena/<edition>/<part>`.
    """

    def write(self, edition: Edition, folder: Path) -> list[Path]:
        """Writes the files and returns their paths.

        Raises:
            UsageError: The edition has no topics, documents or surveys.
        """
        written = [write_card(edition, folder), *write_questions(edition, folder)]
        if has_only_questions(edition):
            return written
        part = "" if edition.part.split == "all" else f"/{edition.part.split}"
        name = f"research-arena/{edition.name}{part}"
        if edition.part.labelled:
            written.append(write_lines(folder / "qrels.txt", trec_qrels(edition)))
        return [
            *written,
            write_lines(folder / "queries.jsonl", _queries(edition)),
            write_lines(folder / "documents.jsonl", _documents(edition)),
            render("loader.py.jinja", folder / "research_arena.py", edition, name=name),
        ]


def _queries(edition: Edition) -> Iterator[str]:
    for asked in asked_records(edition):
        told = {"horizon": asked["horizon"] or "", "instructions": asked["instructions"]}
        yield json_line({"query_id": str(asked["topic_id"]), "text": asked["title"], **told})


def _documents(edition: Edition) -> Iterator[str]:
    for batch in document_batches(edition):
        for document in batch:
            texts = {name: getattr(document, name) or "" for name in ("title", "abstract", "date")}
            yield json_line({"doc_id": str(document.corpus_id), **texts, "survey": document.survey})
