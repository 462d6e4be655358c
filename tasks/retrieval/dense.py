"""The retriever over embeddings."""

import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from schemas.errors import BadInput
from tasks.index.dense import DenseIndex
from tasks.index.encoder import Encoder
from tasks.retrieval.backoff import require_depth, to_hits, trace_of
from tasks.retrieval.retriever import Allowed, Catalogue, Found, Query, Trace, Vector, Verdicts, WeightedTerms


class _Kept(threading.local):
    """What a thread's last search has judged: threads work on different topics, and must not see each other's rule."""

    catalogue: Catalogue | None = None
    rows: NDArray[np.intp]
    allowed: Allowed | None = None
    verdicts: Verdicts


class DenseRetriever:
    """Ranks documents by cosine similarity; filters before the search, which costs one pass whatever is removed.

    Args:
        index: The opened index.
        encoder: The encoder that made its vectors.

    Raises:
        BadInput: The encoder's vectors have another length than the index's.
    """

    name = "dense"

    def __init__(self, index: DenseIndex, encoder: Encoder) -> None:
        if encoder.dimensions != index.dimensions:
            raise BadInput(
                f"dense: the encoder {encoder.settings.model} gives {encoder.dimensions} components, the index has "
                f"{index.dimensions}; open it with the encoder that made it"
            )
        self._index = index
        self._encoder = encoder
        self._kept = _Kept()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of texts as queries, `(n, dim) float32`."""
        return self._encoder.encode_queries(texts)

    def vectors(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """Unit vectors of documents, `(n, dim) float32`, in the order of `ids`.

        Raises:
            BadInput: A document has no embedding.
        """
        return self._index.vectors(ids)

    def search(self, query: Query, k: int, allowed: Allowed | None = None) -> Found:
        """The first `k` allowed documents by cosine similarity.

        Args:
            query: Text, or a vector of the encoder's length.
            k: Number of documents, >= 1.
            allowed: The topic's rule; None lets everything pass.

        Returns:
            The hits. All documents are judged before the search: the trace's depth is the size of the index, and its
            counts are of all documents that the topic may not see.

        Raises:
            BadInput: Weighted terms, a vector that does not fit, or `k` < 1.
        """
        require_depth(k)
        if isinstance(query, WeightedTerms):
            raise BadInput("dense: it takes text or a vector, not weighted terms; send those to bm25")
        if isinstance(query, str) and not query.strip():
            return Found([], Trace())
        vector = query.values if isinstance(query, Vector) else self.embed([query])[0]
        if allowed is None:
            ranked, trace = self._index.search(vector, k), Trace(depth=self._index.size)
        else:
            verdicts = self._judge(allowed)
            ranked, trace = self._index.search(vector, k, verdicts.kept), trace_of(verdicts, 1, self._index.size)
        return Found(to_hits(ranked.ids, ranked.scores, k), trace)

    def _judge(self, allowed: Allowed) -> Verdicts:
        """The rule applied to every document of the index; kept for the thread's next query of the same topic."""
        kept = self._kept
        if kept.catalogue is not allowed.catalogue:
            kept.catalogue, kept.rows = allowed.catalogue, allowed.catalogue.rows(self._index.ids)
        if kept.allowed is not allowed:
            kept.allowed, kept.verdicts = allowed, allowed.judge(kept.rows)
        return kept.verdicts
