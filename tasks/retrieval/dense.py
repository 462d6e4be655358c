"""The dense retriever, which searches embeddings."""

import threading
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from schemas.errors import BadInput
from tasks.index.dense import DenseIndex
from tasks.retrieval.backoff import require_depth, to_hits, trace_of
from tasks.retrieval.retriever import Allowed, Catalogue, Found, Query, Trace, Vector, WeightedTerms
from tasks.retrieval.search_queue import SearchQueue


class _Facts(NamedTuple):
    """Facts about the documents of the index in its order, and their positions in the catalogue they come from."""

    catalogue: Catalogue
    rows: NDArray[np.intp]
    ordered: Catalogue


class _LastFilter(threading.local):
    """The filter of a thread's last search; per thread, because threads work on different topics."""

    allowed: Allowed | None = None
    kept: NDArray[np.bool_]
    trace: Trace


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

    Searches of several threads are answered together.

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
        self._queue = SearchQueue(index)
        self._last = _LastFilter()
        self._facts: _Facts | None = None
        self._ordering = threading.Lock()

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
        vector = query.values if isinstance(query, Vector) else self.embed([query])[0]
        kept, trace = (None, Trace(depth=self._index.size)) if allowed is None else self._judge(allowed)
        ranked = self._queue.search(vector, k, kept)
        return Found(to_hits(ranked.ids, ranked.scores, k), trace)

    def _judge(self, allowed: Allowed) -> tuple[NDArray[np.bool_], Trace]:
        """Filters all documents of the index; the result is cached for the thread's next query of the same topic."""
        last = self._last
        if last.allowed is not allowed:
            facts = self._order_facts(allowed.catalogue)
            verdicts = allowed.judge(facts.rows, facts.ordered)
            last.allowed, last.kept = allowed, verdicts.kept
            last.trace = trace_of(verdicts, 1, self._index.size)
        return last.kept, last.trace

    def _order_facts(self, catalogue: Catalogue) -> _Facts:
        with self._ordering:  # the first topics begin together, and each order takes 40 bytes a document
            facts = self._facts
            if facts is None or facts.catalogue is not catalogue:
                rows = catalogue.rows(self._index.ids)
                self._facts = facts = _Facts(catalogue, rows, catalogue.take(rows))
            return facts
