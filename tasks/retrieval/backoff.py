"""Filtered search by back-off: fetches a longer ranking until it has enough documents that pass the filter."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.errors import BadInput
from schemas.identifiers import CorpusId
from schemas.topic import Hit
from tasks.index.ranked import Ranked
from tasks.retrieval.retriever import Allowed, Found, Trace, Verdicts


class BackOff(NamedTuple):
    """How the depth of a search grows; it changes the speed and never the result.

    Attributes:
        factor: By how much the depth grows each round, >= 2.
        start: Depth of the first round, >= 1; None: the number of documents requested.
    """

    factor: int = 2
    start: int | None = None


DOUBLING = BackOff()
"""The paper's choice: starts at the number of documents requested and doubles each round."""


def search_with_backoff(
    ranking: Callable[[int], Ranked], size: int, k: int, allowed: Allowed | None, backoff: BackOff = DOUBLING
) -> Found:
    """Returns the first `k` documents of a ranking that a topic may see.

    Args:
        ranking: Returns the first `n` documents of one total order; a larger `n` continues the same order.
        size: Number of documents in the index, which limits the depth.
        k: Number of documents, >= 1.
        allowed: The topic's leakage filter; None lets everything pass.
        backoff: How the depth grows.

    Returns:
        The same documents as filtering the complete ranking and taking the first `k`; fewer when the ranking is
        exhausted. The trace counts what the filter removed from the last ranking fetched.

    Raises:
        BadInput: `k` < 1, or the index contains a document that is not in the catalogue.

    Source:
        Section 5 of the ResearchArena paper: the search is repeated with exponentially growing depth.
    """
    require_depth(k)
    depth = min(backoff.start or k, size)
    rounds = 1
    while True:
        ranked = ranking(depth) if depth else Ranked.nothing()
        verdicts = _judge(allowed, ranked.ids)
        if verdicts.kept.sum() >= k or len(ranked.ids) < depth or depth >= size:
            hits = to_hits(ranked.ids[verdicts.kept], ranked.scores[verdicts.kept], k)
            return Found(hits, trace_of(verdicts, rounds, depth))
        depth = min(backoff.factor * depth, size)
        rounds += 1


def require_depth(k: int) -> None:
    """Checks that at least one document is requested.

    Raises:
        BadInput: `k` < 1.
    """
    if k < 1:
        raise BadInput(f"search: {k} documents requested; request at least 1")


def to_hits(ids: NDArray[np.int64], scores: NDArray[np.float32], k: int) -> list[Hit]:
    """Returns the first `k` of ranked documents as hits."""
    return [Hit(CorpusId(i), score) for i, score in zip(ids[:k].tolist(), scores[:k].tolist(), strict=True)]


def trace_of(verdicts: Verdicts, rounds: int, depth: int) -> Trace:
    """Returns the trace of a search from the filter's verdicts."""
    return Trace(rounds, depth, int(verdicts.survey.sum()), int(verdicts.late.sum()), int(verdicts.itself.sum()))


def _judge(allowed: Allowed | None, ids: NDArray[np.int64]) -> Verdicts:
    if allowed is not None:
        return allowed.judge(allowed.catalogue.rows(ids))
    none = np.zeros(len(ids), bool)
    return Verdicts(~none, none, none, none)
