"""A data set for Hugging Face's `datasets`, with a data card and Croissant metadata."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.exports.card import write_card
from tasks.exports.croissant import write_croissant
from tasks.exports.edition import Edition
from tasks.exports.exporter import exporter
from tasks.exports.public import asked_records, document_batches, has_only_questions, mindmap_rows, question_records

TOPICS = pa.schema(
    [
        pa.field("topic_id", pa.int64(), nullable=False),
        pa.field("title", pa.string(), nullable=False),
        pa.field("horizon", pa.string()),
        pa.field("instructions", pa.string(), nullable=False),
    ]
)
QRELS = pa.schema([("topic_id", pa.int64()), ("corpus_id", pa.int64()), ("relevance", pa.int8())])
IDS = pa.schema([("corpus_id", pa.int64()), ("survey", pa.bool_())])
TEXTS = pa.schema([*IDS, ("title", pa.string()), ("abstract", pa.string()), ("date", pa.string())])
MINDMAPS = pa.schema([("topic_id", pa.int64()), ("tree", pa.string())])
QUESTIONS = pa.schema(
    [
        ("uuid", pa.string()),
        ("question", pa.string()),
        ("answer_format", pa.string()),
        ("anchor_pdf", pa.list_(pa.string())),
        ("conference", pa.list_(pa.string())),
        ("instructions", pa.string()),
    ]
)


@exporter("hf", "A data set for Hugging Face's datasets: Parquet tables, a data card, Croissant metadata.", parts=True)
class HuggingFaceExporter:
    """Writes `topics.parquet`, `qrels.parquet`, `documents.parquet`, `README.md` and `croissant.json`.

    With texts also `mindmaps.parquet`; of AirQA `questions.parquet`, with what systems see. Each table is a
    configuration: `datasets.load_dataset(folder, "topics")`.
    """

    def write(self, edition: Edition, folder: Path) -> list[Path]:
        """Writes the files and returns their paths.

        Raises:
            UsageError: The edition has no topics, documents or surveys.
        """
        tables = {name: _write(folder / f"{name}.parquet", schema, rows) for name, schema, rows in _tables(edition)}
        card = write_card(edition, folder, {name: [path.name] for name, path in tables.items()})
        return [*tables.values(), card, write_croissant(edition, folder, tables)]


def _tables(edition: Edition) -> Iterator[tuple[str, pa.Schema, Iterable[pa.Table]]]:
    if questions := list(question_records(edition)):
        yield "questions", QUESTIONS, [pa.Table.from_pylist(questions, QUESTIONS)]
    if has_only_questions(edition):
        return
    yield "topics", TOPICS, [pa.Table.from_pylist(list(asked_records(edition)), TOPICS)]
    if edition.part.labelled:
        yield "qrels", QRELS, [edition.judgments().to_arrow()]
    documents = TEXTS if edition.part.texts else IDS
    yield "documents", documents, _documents(edition, documents)
    if (maps := mindmap_rows(edition)) is not None:
        yield "mindmaps", MINDMAPS, [maps.to_arrow()]


def _documents(edition: Edition, schema: pa.Schema) -> Iterator[pa.Table]:
    for batch in document_batches(edition):
        yield pa.table({name: [getattr(document, name) for document in batch] for name in schema.names}, schema)


def _write(path: Path, schema: pa.Schema, rows: Iterable[pa.Table]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for table in rows:
            writer.write_table(table.cast(schema))
    return path
