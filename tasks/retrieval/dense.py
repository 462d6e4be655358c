"""The dense retriever, which searches embeddings."""

import threading
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from schemas.errors import BadInput
from tasks.index.dense import DenseIndex
from tasks.retrieval.announced import Announced, AnnouncedSearches
from tasks.retrieval.backoff import require_depth, to_hits, trace_of
from tasks.retrieval.retriever import Allowed, Catalogue, Found, Query, Trace, Vector, Verdicts, WeightedTerms

MASK_BYTES = 256 * 2**20
"""Bytes of filters that are held at once."""


class _LastFilter(threading.local):
    """The filter of a thread's last search; per thread, because threads work on different topics."""

    catalogue: Catalogue | None = None
    rows: NDArray[np.intp]
    allowed: Allowed | None = None
    verdicts: Verdicts


class QueryEncoder(Protocol):
    """Turns queries into vectors of the same space as those of the documents."""

    @property
    def dimensions(self) -> int:
        """Components of a vector."""
        ...

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Returns unit vectors of queries, `(n, dim) float32`."""
        ...


class DenseRetriever:
    """Ranks documents by cosine similarity; filters before the search, so one search is always enough.

    Args:
        index: The opened index.
        encoder: The encoder that made its vectors.

    Raises:
        BadInput: The vectors of encoder and index differ in length.
    """

    name = "dense"

    def __init__(self, index: DenseIndex, encoder: QueryEncoder) -> None:
        if encoder.dimensions != index.dimensions:
            raise BadInput(
                f"{self.name}: the encoder makes vectors of {encoder.dimensions} components, but the index has "
                f"{index.dimensions}; open it with the encoder that made it"
            )
        self._index = index
        self._encoder = encoder
        self._last = _LastFilter()
        self._announced = AnnouncedSearches(self._search_together)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encodes texts as queries and returns unit vectors, `(n, dim) float32`."""
        return self._encoder.encode_queries(texts)

    def vectors(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """Returns unit vectors of documents, `(n, dim) float32`, in the order of `ids`.

        Raises:
            BadInput: A document has no embedding.
        """
        return self._index.vectors(ids)

    def search(self, query: Query, k: int, allowed: Allowed | None = None) -> Found:
        """Returns the first `k` allowed documents by cosine similarity.

        Args:
            query: Text, or a vector of the encoder's length.
            k: Number of documents, >= 1.
            allowed: The topic's leakage filter; None lets everything pass.

        Returns:
            The hits. All documents are filtered before the search, so the trace's depth is the size of the index, and
            it counts all documents that the topic may not see.

        Raises:
            BadInput: The query is weighted terms or a vector of another length, or `k` < 1.
        """
        require_depth(k)
        if isinstance(query, WeightedTerms):
            raise BadInput(f"{self.name} accepts text or a vector, not weighted terms; send those to bm25")
        if isinstance(query, str) and not query.strip():
            return Found([], Trace())
        if isinstance(query, str) and allowed and (known := self._announced.take(Announced(query, k, allowed))):
            return known
        vector = query.values if isinstance(query, Vector) else self.embed([query])[0]
        if allowed is None:
            ranked, trace = self._index.search(vector, k), Trace(depth=self._index.size)
        else:
            verdicts = self._judge(allowed)
            ranked, trace = self._index.search(vector, k, verdicts.kept), trace_of(verdicts, 1, self._index.size)
        return Found(to_hits(ranked.ids, ranked.scores, k), trace)

    def announce(self, searches: Sequence[Announced]) -> None:
        """Announces searches for texts that are not blank: they are then answered together, with the same results."""
        self._announced.add(searches)

    def _search_together(self, searches: Sequence[Announced]) -> list[Found]:
        """Answers searches in parts of about `MASK_BYTES` of filters; texts are encoded as one by one."""
        size = max(1, MASK_BYTES // max(1, self._index.size))
        parts = [searches[start : start + size] for start in range(0, len(searches), size)]
        return [found for part in parts for found in self._search_part(part)]

    def _search_part(self, searches: Sequence[Announced]) -> list[Found]:
        verdicts = [self._judge(search.allowed) for search in searches]
        vectors = np.concatenate([self.embed([search.query]) for search in searches])
        most = max(search.k for search in searches)
        ranked = self._index.search_many(vectors, most, [verdict.kept for verdict in verdicts])
        return [
            Found(to_hits(best.ids, best.scores, search.k), trace_of(verdict, 1, self._index.size))
            for search, best, verdict in zip(searches, ranked, verdicts, strict=True)
        ]

    def _judge(self, allowed: Allowed) -> Verdicts:
        """Filters all documents of the index; the result is cached for the thread's next query of the same topic."""
        last = self._last
        if last.catalogue is not allowed.catalogue:
            last.catalogue, last.rows = allowed.catalogue, allowed.catalogue.rows(self._index.ids)
        if last.allowed is not allowed:
            last.allowed, last.verdicts = allowed, allowed.judge(last.rows)
        return last.verdicts
