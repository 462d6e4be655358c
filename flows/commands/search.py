"""`arena search`: searches an edition's documents with one of its retrievers."""

from dataclasses import replace
from datetime import date, timedelta
from typing import Annotated

import numpy as np

from flows.commands.options import FLAT, Count
from flows.commands.terminal import show_list
from flows.pipeline.machine import Machine
from flows.pipeline.walk import choose_edition, remedy
from schemas.errors import UsageError
from schemas.identifiers import EditionName, Field
from schemas.settings import REQUIRED_DATASETS, RetrieverName
from tasks.retrieval.backend import open_backend
from tasks.retrieval.retriever import NEVER, Allowed
from tasks.store.dataset import Dataset
from tasks.store.editions import Editions
from tasks.store.store import Store

NOBODY = -1
"""corpus_id of no paper: a person's query belongs to no survey, so no survey is removed from the results."""


def search(
    query: str,
    /,
    *,
    edition: EditionName | None = None,
    retriever: RetrieverName = "hybrid",
    field: Field = "abstract",
    before: date | None = None,
    k: Count = 10,
    machine: Annotated[Machine | None, FLAT] = None,
    json: bool = False,
) -> None:
    """Search an edition's documents.

    Args:
        query: Words or a sentence to search for.
        edition: Name of the edition; may be left out when there is only one.
        retriever: Name of the retriever.
        field: Part of the documents that the index covers.
        before: Only papers published before this day, YYYY-MM-DD.
        k: Number of papers.
        json: Print the papers as JSON.
    """
    machine = machine or Machine()
    datasets = _open_datasets(Store(machine.root), edition, [*REQUIRED_DATASETS[retriever]], field)
    backend = open_backend(retriever, datasets, machine)
    everybody = replace(backend.catalogue, surveys=np.zeros_like(backend.catalogue.surveys))
    allowed = Allowed(everybody, NOBODY, before) if before else None
    hits = backend.engines[retriever].search(query, k, allowed).hits
    documents = backend.reader.read([hit.corpus_id for hit in hits])
    days = everybody.days[everybody.rows(np.array([hit.corpus_id for hit in hits], np.int64))]
    rows = [
        {
            "rank": rank,
            "score": round(hit.score, 4),
            "year": _year(day),
            "title": document.title,
            "corpus_id": hit.corpus_id,
        }
        for rank, (hit, document, day) in enumerate(zip(hits, documents, days, strict=True), 1)
    ]
    show_list(rows, json=json)


def _open_datasets(store: Store, edition: EditionName | None, parts: list[str], field: Field) -> dict[str, Dataset]:
    """Opens the documents, the surveys and the indexes of one field, keyed by the names that a backend expects."""
    name = choose_edition(store, edition)
    slots = Editions(store).load(name).slots
    wanted = {"documents": "documents", "surveys": "surveys", **{part: f"{part}/{field}" for part in parts}}
    if missing := [slot for slot in wanted.values() if slot not in slots]:
        raise UsageError(f"edition {name} has no {', '.join(missing)}; {remedy(missing[0])}")
    return {part: store.open(slots[slot]) for part, slot in wanted.items()}


def _year(day: np.int32) -> int | None:
    return None if day == NEVER else (date(1970, 1, 1) + timedelta(days=int(day))).year
