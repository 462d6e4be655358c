"""Edges between documents: exact, each once, in both directions."""

from collections.abc import Iterable
from datetime import date
from typing import Any

import numpy as np

from schemas.tables.citation_records import CITATION_RECORDS
from schemas.tables.documents import DOCUMENTS
from tasks.corpus.edges import Direction, edges
from tasks.retrieval.graph import CitationGraph
from tasks.retrieval.retriever import Catalogue
from tasks.store.dataset import Dataset
from tests.corpus.conftest import Corpus

DIRECTIONS: tuple[Direction, ...] = ("references", "citations")


def build(corpus: Corpus, ids: Iterable[int], pairs: Iterable[tuple[int, int | None]], workers: int = 1) -> Dataset:
    documents = corpus.given("documents", {DOCUMENTS: [{"corpus_id": i, "date": date(2020, 1, 1)} for i in ids]}, 3)
    records = [
        {"citing_corpus_id": citing, "cited_corpus_id": cited, "citation_id": place}
        for place, (citing, cited) in enumerate(pairs)
    ]
    return corpus.build(
        edges,
        workers=workers,
        documents=documents,
        citation_records=corpus.given("citation_records", {CITATION_RECORDS: records}, 2),
    )


def open_graph(dataset: Dataset, ids: list[int]) -> CitationGraph:
    known = np.array(sorted(ids), np.int64)
    return CitationGraph(dataset, Catalogue(known, np.zeros(len(ids), np.int32), np.zeros(len(ids), bool)))


def neighbours(graph: CitationGraph, ids: list[int], direction: Direction) -> dict[int, list[int]]:
    known = sorted(ids)
    return {i: [known[row] for row in graph.neighbours(place, direction)] for place, i in enumerate(known)}


def test_edges_of_papers_that_are_no_documents_are_left_out_and_counted(corpus: Corpus) -> None:
    pairs = [(7, 3), (7, 3), (7, 5), (3, 5), (7, 99), (99, 3), (5, None), (5, 5)]
    dataset = build(corpus, [7, 3, 5], pairs)
    counts = dataset.manifest.counts
    assert (counts.read, counts.kept) == (8, 4)
    assert counts.dropped == {"unmatched": 1, "not_documents": 2, "duplicate": 1}
    graph = open_graph(dataset, [7, 3, 5])
    assert neighbours(graph, [7, 3, 5], "references") == {3: [5], 5: [5], 7: [3, 5]}
    assert neighbours(graph, [7, 3, 5], "citations") == {3: [7], 5: [3, 5, 7], 7: []}


def test_documents_without_any_edge(corpus: Corpus) -> None:
    graph = open_graph(build(corpus, [1, 2], []), [1, 2])
    assert neighbours(graph, [1, 2], "references") == {1: [], 2: []}


def test_both_directions_are_those_of_a_plain_count_with_any_workers(corpus: Corpus, new_corpus: Any) -> None:
    rng = np.random.default_rng(3)
    ids = sorted(int(i) for i in rng.choice(70, 50, replace=False))
    pairs = [(int(a), int(b)) for a, b in rng.integers(0, 75, (900, 2))]
    one, two = (build(place, ids, pairs, workers) for place, workers in ((corpus, 1), (new_corpus(), 2)))
    assert one.manifest.digest == two.manifest.digest
    kept = {(a, b) for a, b in pairs if a in ids and b in ids}
    graph = open_graph(one, ids)
    assert neighbours(graph, ids, "references") == {i: sorted(b for a, b in kept if a == i) for i in ids}
    assert neighbours(graph, ids, "citations") == {i: sorted(a for a, b in kept if b == i) for i in ids}
