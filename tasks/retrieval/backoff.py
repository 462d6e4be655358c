"""Filtered search by widening: ask for more of a ranking until enough of it may be seen."""

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
    """How a search widens; no choice changes what is found.

    Attributes:
        factor: By how much the depth grows each round, >= 2.
        start: Depth of the first round, >= 1; None: the number of documents asked for.
    """

    factor: int = 2
    start: int | None = None


DOUBLING = BackOff()
"""The paper's: from the number asked for, twice as many each round."""


def search_with_backoff(
    ranking: Callable[[int], Ranked], size: int, k: int, allowed: Allowed | None, backoff: BackOff = DOUBLING
) -> Found:
    """The first `k` documents of a ranking that a topic may see.

    Args:
        ranking: Gives the first `n` documents of one total order, which the answer for a larger `n` continues.
        size: Number of documents in the index, which bounds the depth.
        k: Number of documents, >= 1.
        allowed: The topic's rule; None lets everything pass.
        backoff: How the search widens.

    Returns:
        What filtering the complete ranking and taking the first `k` would give; fewer when the ranking is exhausted.
        The trace tells what was removed from the last ranking that was looked at.

    Raises:
        BadInput: `k` < 1, or the index holds a document that the catalogue does not know.

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
    """Refuses to search for less than one document.

    Raises:
        BadInput: `k` < 1.
    """
    if k < 1:
        raise BadInput(f"search: asked for {k} documents; ask for at least 1")


def to_hits(ids: NDArray[np.int64], scores: NDArray[np.float32], k: int) -> list[Hit]:
    """The first `k` of ranked documents as hits."""
    return [Hit(CorpusId(i), score) for i, score in zip(ids[:k].tolist(), scores[:k].tolist(), strict=True)]


def trace_of(verdicts: Verdicts, rounds: int, depth: int) -> Trace:
    """The record of a search whose filter gave these verdicts."""
    return Trace(rounds, depth, int(verdicts.survey.sum()), int(verdicts.late.sum()), int(verdicts.itself.sum()))


def _judge(allowed: Allowed | None, ids: NDArray[np.int64]) -> Verdicts:
    if allowed is not None:
        return allowed.judge(allowed.catalogue.rows(ids))
    none = np.zeros(len(ids), bool)
    return Verdicts(~none, none, none, none)
