"""`arena search`: searches an edition's documents with one of its retrievers."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import date, timedelta
from typing import Annotated, get_args

import numpy as np

from flows.commands.options import FLAT, Count
from flows.commands.terminal import show_list, show_note
from flows.pipeline.machine import Machine
from flows.pipeline.walk import choose_edition, remedy
from schemas.errors import UsageError
from schemas.identifiers import EditionName, Field
from schemas.manifest import Ref
from schemas.settings import REQUIRED_DATASETS, RetrieverName
from tasks.retrieval.backend import open_backend
from tasks.retrieval.hybrid import DEPTH as FUSED
from tasks.retrieval.retriever import NEVER, Allowed
from tasks.store.dataset import Dataset
from tasks.store.editions import Editions
from tasks.store.store import Store

SCORES = {"bm25": "BM25", "dense": "cosine", "lsa": "cosine (LSA)"}
"""What the score of each engine is called."""

NOBODY = -1
"""corpus_id of no paper: a person's query belongs to no survey, so no survey is removed from the results."""


def search(
    query: str,
    /,
    *,
    edition: EditionName | None = None,
    retriever: RetrieverName | None = None,
    field: Field | None = None,
    before: date | None = None,
    k: Count = 10,
    machine: Annotated[Machine | None, FLAT] = None,
    json: bool = False,
) -> None:
    """Search an edition's documents, and show each paper's scores: BM25, cosine, or both.

    Args:
        query: Words or a sentence to search for.
        edition: Name of the edition; may be left out when there is only one.
        retriever: Name of the retriever; left out: hybrid, or the one whose index is there.
        field: Part of the documents that the index covers; left out: abstract, or the one that has an index.
        before: Only papers published before this day, YYYY-MM-DD.
        k: Number of papers.
        json: Print the papers as JSON.
    """
    machine = machine or Machine()
    store = Store(machine.root)
    name = choose_edition(store, edition)
    slots = Editions(store).load(name).slots
    field = field or _field_with_index(slots)
    chosen = retriever or _retriever_with_index(slots, field)
    if retriever is None and chosen != "hybrid":
        absent = [part for part in REQUIRED_DATASETS["hybrid"] if f"{part}/{field}" not in slots]
        show_note(f"edition {name} has no {' and '.join(absent)} of {field}: searching with {chosen} alone")
    backend = open_backend(chosen, _open_datasets(store, name, [*REQUIRED_DATASETS[chosen]], field), machine)
    everybody = replace(backend.catalogue, surveys=np.zeros_like(backend.catalogue.surveys))
    allowed = Allowed(everybody, NOBODY, before) if before else None
    hits = backend.engines[chosen].search(query, k, allowed).hits
    parts = {name: engine for name, engine in backend.engines.items() if name in SCORES}
    found = {
        SCORES[name]: hits if name == chosen else engine.search(query, max(k, FUSED), allowed).hits
        for name, engine in parts.items()
    }
    scores = {of: {hit.corpus_id: hit.score for hit in listed} for of, listed in found.items()}
    papers = [hit.corpus_id for hit in hits]
    documents = backend.reader.read(papers)
    days = everybody.days[everybody.rows(np.array(papers, np.int64))]
    rows = [
        {"rank": rank}
        | {of: round(by_paper[paper], 4) if paper in by_paper else None for of, by_paper in scores.items()}
        | {"year": _year(day), "title": document.title, "corpus_id": paper}
        for rank, (paper, document, day) in enumerate(zip(papers, documents, days, strict=True), 1)
    ]
    show_list(rows, json=json)


def _field_with_index(slots: Mapping[str, Ref]) -> Field:
    """Returns the part of the documents to search: the abstract, or the first that has an index."""
    fields = [field for field in get_args(Field) if f"bm25/{field}" in slots or f"embeddings/{field}" in slots]
    return "abstract" if "abstract" in fields or not fields else fields[0]


def _retriever_with_index(slots: Mapping[str, Ref], field: Field) -> RetrieverName:
    """Returns hybrid, or bm25 or dense where that is the only one whose index is there."""
    bm25, dense = f"bm25/{field}" in slots, f"embeddings/{field}" in slots
    if not bm25 and not dense and f"lsa/{field}" in slots:
        return "lsa"
    return "hybrid" if bm25 == dense else "bm25" if bm25 else "dense"


def _open_datasets(store: Store, name: str, parts: list[str], field: Field) -> dict[str, Dataset]:
    """Opens the documents, the surveys and the indexes of one field, keyed by the names that a backend expects."""
    slots = Editions(store).load(name).slots
    wanted = {"documents": "documents", "surveys": "surveys", **{part: f"{part}/{field}" for part in parts}}
    if missing := [slot for slot in wanted.values() if slot not in slots]:
        raise UsageError(f"edition {name} has no {', '.join(missing)}; {remedy(missing[0])}")
    return {part: store.open(slots[slot]) for part, slot in wanted.items()}


def _year(day: np.int32) -> int | None:
    return None if day == NEVER else (date(1970, 1, 1) + timedelta(days=int(day))).year
