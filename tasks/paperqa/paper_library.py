"""The papers of an edition, opened for question answering: passages, indexes, databases, PDFs."""

import re
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from schemas.paperqa import PaperId
from schemas.settings import Resources
from tasks.index.bm25 import Bm25Index
from tasks.index.dense import DenseIndex
from tasks.index.embeddings import open_encoder
from tasks.index.encoder import Encoder
from tasks.paperqa.sandbox import ScopedDatabases
from tasks.store.dataset import Dataset
from tasks.store.parquet import read_table

EngineName = Literal["dense", "bm25"]
PassageKind = Literal["abstract", "text", "table", "figure", "equation"]

FIRST_DEPTH = 400
"""Passages requested from BM25 at first; eight times as many if too few of them are in scope."""

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Card(NamedTuple):
    """The basic metadata of a paper."""

    paper_id: PaperId
    title: str
    abstract: str
    conference: str
    num_pages: int


class Passage(NamedTuple):
    """A passage and its location."""

    paper_id: PaperId
    title: str
    kind: PassageKind
    section: str | None
    page: int | None
    text: str


class PaperLibrary:
    """Everything that questions are answered from. Thread-safe; passages are kept in memory.

    Args:
        papers: Dataset of stage `paperqa_store`.
        chunks: Of stage `paperqa_chunks`.
        bm25: Of stage `bm25`, over the chunks.
        embeddings: Of stage `embeddings`, over the chunks.
        pdfs: PDFs by paper; a paper without one has no pages to look at.
        resources: Device and batch size of the encoder; memory of the processes that run SQL.
    """

    def __init__(
        self,
        papers: Dataset,
        chunks: Dataset,
        bm25: Dataset,
        embeddings: Dataset,
        pdfs: Iterable[Path] = (),
        resources: Resources | None = None,
    ) -> None:
        self._papers = papers
        self._embeddings = embeddings
        self._resources = resources or Resources()
        self._lock = threading.Lock()
        self._bm25 = Bm25Index(bm25)
        self._passages = pl.read_parquet(chunks.files()).sort("corpus_id")
        self._ids = self._passages["corpus_id"].to_numpy()
        self.databases = ScopedDatabases(papers, self._resources.memory_gib)
        self.pdfs: Mapping[str, Path] = {path.stem: path for path in pdfs if _UUID.fullmatch(path.stem)}
        rows = pl.read_parquet(papers.files(), columns=["paper_id", "title", "abstract", "conference", "num_pages"])
        self.cards: Mapping[PaperId, Card] = {row[0]: Card(*row) for row in rows.sort("paper_id").iter_rows()}

    def passages_of(self, scope: Iterable[PaperId], kind: PassageKind | None = None) -> NDArray[np.bool_]:
        """Returns a mask `(n_passages,)` of the passages that belong to papers of a scope (and to a kind)."""
        kept = self._passages["paper_id"].is_in(pl.Series(sorted(scope), dtype=pl.String).implode())
        if kind is not None:
            kept = kept & (self._passages["kind"] == kind)
        return kept.to_numpy()

    def search(self, query: str, k: int, engine: EngineName, kept: NDArray[np.bool_]) -> list[Passage]:
        """Returns the best `k` passages under a mask; fewer if the mask allows fewer.

        Args:
            query: Text.
            k: >= 1.
            engine: `dense`: cosine of embeddings; `bm25`: terms of paper title and passage.
            kept: The mask, as `passages_of` returns it.
        """
        if not kept.any() or not query.strip():
            return []
        rows = self._dense_rows(query, k, kept) if engine == "dense" else self._bm25_rows(query, k, kept)
        columns = ("paper_id", "title", "kind", "section", "page", "abstract")
        return [Passage(*row) for row in self._passages[rows].select(columns).iter_rows()]

    def sections(self, paper: PaperId) -> list[tuple[str, str]]:
        """Returns headings and texts of a paper, in order."""
        rows: list[tuple[str, str]] = []
        for path in self._papers.files("sections"):
            found = read_table(path, columns=["title", "text"], filters=[("paper_id", "=", paper)])
            rows += zip(found["title"].to_pylist(), found["text"].to_pylist(), strict=True)
        return rows

    def _dense_rows(self, query: str, k: int, kept: NDArray[np.bool_]) -> Sequence[int]:
        with self._lock:  # neither the encoder nor its tokenizer is made for several threads
            vector = self._encoder.encode_queries([query])[0]
            places = self._dense_places
        return self._rows(self._dense.search(vector, k, kept[places]).ids)

    def _bm25_rows(self, query: str, k: int, kept: NDArray[np.bool_]) -> Sequence[int]:
        weights = {term: float(times) for term, times in Counter(self._bm25.terms(query)).items()}
        depth = max(FIRST_DEPTH, k)
        while True:
            found = self._rows(self._bm25.search(weights, depth).ids)
            allowed = [row for row in found if kept[row]]
            if len(allowed) >= k or len(found) < depth:
                return allowed[:k]
            depth *= 8

    def _rows(self, ids: NDArray[np.int64]) -> list[int]:
        return np.searchsorted(self._ids, ids).tolist()

    @cached_property
    def _encoder(self) -> Encoder:
        return open_encoder(self._embeddings, self._resources.device, self._resources.batch_size)

    @cached_property
    def _dense(self) -> DenseIndex:
        return DenseIndex.open(self._embeddings, device=self._resources.device)

    @cached_property
    def _dense_places(self) -> NDArray[np.int64]:
        """Returns the row of each vector's passage."""
        return np.searchsorted(self._ids, self._dense.ids)

    def close(self) -> None:
        """Removes temporary files."""
        self.databases.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
