"""The retriever that fuses others."""

from collections.abc import Sequence

from schemas.errors import BadInput
from schemas.topic import Hit
from tasks.retrieval.backoff import require_depth
from tasks.retrieval.fusion import reciprocal_rank_fusion
from tasks.retrieval.retriever import Allowed, Found, Query, Retriever, Trace

DEPTH = 100
"""Length of the lists that are fused, unless more documents are asked for."""


class HybridRetriever:
    """Ranks documents by reciprocal rank fusion of several engines' filtered lists.

    One ranking is continued by the answer for a larger number up to `depth`; beyond it, longer lists are fused.

    Args:
        engines: Each is asked every query; the earlier one goes first in ties.
        depth: Length of the lists, >= 1.
    """

    name = "hybrid"

    def __init__(self, engines: Sequence[Retriever], depth: int = DEPTH) -> None:
        self._engines = engines
        self._depth = depth

    def search(self, query: Query, k: int, allowed: Allowed | None = None) -> Found:
        """The first `k` documents of the fused ranking.

        Args:
            query: Text, which every engine takes.
            k: Number of documents, >= 1.
            allowed: The topic's rule; None lets everything pass.

        Returns:
            Hits with score = -rank, as fused scores tie. The trace holds the most rounds of any engine, and sums.

        Raises:
            BadInput: A query that is no text, or `k` < 1.
        """
        require_depth(k)
        if not isinstance(query, str):
            raise BadInput("hybrid: it takes text only; send weighted terms to bm25, vectors to dense, and fuse")
        found = [engine.search(query, max(k, self._depth), allowed) for engine in self._engines]
        fused = reciprocal_rank_fusion([[hit.corpus_id for hit in hits] for hits, _ in found])[:k]
        hits = [Hit(corpus_id, -float(rank)) for rank, (corpus_id, _) in enumerate(fused, 1)]
        return Found(hits, _joined([trace for _, trace in found]))


def _joined(traces: Sequence[Trace]) -> Trace:
    rounds, *sums = zip(*traces, strict=True)
    return Trace(max(rounds), *map(sum, sums))
