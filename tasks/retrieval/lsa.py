"""The retriever over a latent semantic index."""

from tasks.index.dense import DenseIndex
from tasks.index.lsa import LsaSpace
from tasks.retrieval.dense import DenseRetriever
from tasks.retrieval.retriever import Allowed, Found, Query, Trace


class LsaRetriever(DenseRetriever):
    """Ranks documents by cosine similarity in a space that was trained on the corpus alone.

    Args:
        index: The opened vectors.
        space: The space that made them.
    """

    name = "lsa"

    def __init__(self, index: DenseIndex, space: LsaSpace) -> None:
        super().__init__(index, space)
        self._space = space

    def search(self, query: Query, k: int, allowed: Allowed | None = None) -> Found:
        """Returns the first `k` allowed documents by cosine similarity; a text without a known term finds nothing.

        Otherwise as `DenseRetriever.search`.
        """
        if isinstance(query, str) and k >= 1 and not self._space.knows(query):
            return Found([], Trace())
        return super().search(query, k, allowed)
