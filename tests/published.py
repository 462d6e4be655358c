"""Small published datasets for the stages of evaluation."""

from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any

import pyarrow as pa

from schemas.identifiers import StageName
from schemas.manifest import Ref
from schemas.settings import Settings
from schemas.table import AnyTable
from schemas.tables.documents import DOCUMENTS
from schemas.tables.qrels import QRELS
from schemas.tables.surveys import SURVEYS
from schemas.tables.topics import TOPICS
from tasks.store.parquet import write_table
from tasks.store.stage import Stage
from tasks.store.store import Request, Store
from tasks.store.workspace import Workspace

Rows = Iterable[Mapping[str, Any]]


class _NoSettings(Settings):
    """Nothing to choose; `number` keeps datasets of one stage apart."""

    number: int = 0


def publish(
    store: Store, name: str, tables: Mapping[str, tuple[AnyTable, Rows]], settings: Settings | None = None
) -> Ref:
    """A dataset of a stage with the given rows; `tables` by file prefix."""

    def write(work: Workspace[Any]) -> None:
        for shard in work.pending(["all"]):
            with shard:
                for prefix, (table, rows) in tables.items():
                    content = pa.Table.from_pylist([dict(row) for row in rows], table.arrow)
                    write_table(shard.file(f"{prefix}-00000.parquet"), table, content)

    chosen = settings or _NoSettings(number=sum(1 for _ in (store.root / name).glob("*")))
    return store.build(Request(Stage(StageName(name), 1, type(chosen), write), chosen, {})).ref


def topic_row(topic_id: int, title: str = "Birds", outcome: str = "kept", fields: Iterable[str] = ()) -> dict[str, Any]:
    return {
        "topic_id": topic_id,
        "title": title,
        "horizon": date(2020, 1, 1),
        "horizon_precision": "day",
        "fields_of_study": list(fields),
        "references": 3,
        "linked": 3,
        "accessible": 3,
        "relevant": 3,
        "influential": 1,
        "coverage": 1.0,
        "outcome": outcome,
    }


def publish_topics(store: Store, topics: Rows, qrels: Mapping[int, Mapping[int, int]]) -> Ref:
    judged = [
        {"topic_id": topic, "corpus_id": document, "relevance": relevance}
        for topic, documents in qrels.items()
        for document, relevance in documents.items()
    ]
    return publish(store, "topics", {"part": (TOPICS, topics), "qrels": (QRELS, judged)})


def publish_documents(store: Store, texts: Mapping[int, tuple[str, str | None]], late: Iterable[int] = ()) -> Ref:
    """Documents (title, abstract) by id, published 2019-01-01; those in `late` on 2020-01-01, the topics' horizon."""
    rows = [
        {
            "corpus_id": corpus_id,
            "title": title,
            "abstract": abstract,
            "date": date(2020 if corpus_id in late else 2019, 1, 1),
            "fields_of_study": [],
        }
        for corpus_id, (title, abstract) in sorted(texts.items())
    ]
    return publish(store, "documents", {"part": (DOCUMENTS, rows)})


def publish_surveys(store: Store, accepted: Iterable[int]) -> Ref:
    rows = [
        {
            "corpus_id": corpus_id,
            "title": "A Survey",
            "text_digest": bytes(16),
            "accepted": True,
            "reason": "title",
            "selector": "rules",
            "model": None,
            "prompt_id": None,
            "outcome": "ok",
        }
        for corpus_id in sorted(accepted)
    ]
    return publish(store, "surveys", {"part": (SURVEYS, rows)})
