"""The hybrid retriever, which fuses the rankings of other retrievers."""

from collections.abc import Sequence

from schemas.errors import BadInput
from schemas.topic import Hit
from tasks.retrieval.backoff import require_depth
from tasks.retrieval.fusion import reciprocal_rank_fusion
from tasks.retrieval.retriever import Allowed, Found, Query, Retriever, Trace

DEPTH = 100
"""Length of the fused lists, unless more documents are requested."""


class HybridRetriever:
    """Ranks documents by reciprocal rank fusion of several engines' filtered lists.

    Up to `depth`, a larger `k` continues the same ranking; beyond it, longer lists are fused.

    Args:
        engines: Each gets every query; in ties the earlier engine comes first.
        depth: Length of the fused lists, >= 1.
        name: What the combination of engines is called.
    """

    def __init__(self, engines: Sequence[Retriever], depth: int = DEPTH, name: str = "hybrid") -> None:
        self.name = name
        self._engines = engines
        self._depth = depth

    def search(self, query: Query, k: int, allowed: Allowed | None = None) -> Found:
        """Returns the first `k` documents of the fused ranking.

        Args:
            query: Text, which every engine accepts.
            k: Number of documents, >= 1.
            allowed: The topic's leakage filter; None lets everything pass.

        Returns:
            Hits with score = -rank, because fused scores tie. The trace has the largest number of rounds of any engine
            and the sums of the other numbers.

        Raises:
            BadInput: The query is not text, or `k` < 1.
        """
        require_depth(k)
        if not isinstance(query, str):
            raise BadInput(
                f"{self.name} accepts text only; send weighted terms to bm25, vectors to dense or lsa, then fuse"
            )
        found = [engine.search(query, max(k, self._depth), allowed) for engine in self._engines]
        fused = reciprocal_rank_fusion([[hit.corpus_id for hit in hits] for hits, _ in found])[:k]
        hits = [Hit(corpus_id, -float(rank)) for rank, (corpus_id, _) in enumerate(fused, 1)]
        return Found(hits, _merge_traces([trace for _, trace in found]))


def _merge_traces(traces: Sequence[Trace]) -> Trace:
    rounds, *sums = zip(*traces, strict=True)
    return Trace(max(rounds), *map(sum, sums))
