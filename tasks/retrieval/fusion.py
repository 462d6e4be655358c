"""Fuses several rankings into one."""

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from schemas.topic import Hit

D = TypeVar("D", bound=Hashable)


class _Place(NamedTuple):
    """Position of a document: rank from 1, number of the list from 0."""

    rank: int
    ranking: int


def reciprocal_rank_fusion(rankings: Sequence[Iterable[D]], k: float = 60) -> list[tuple[D, float]]:
    """Ranks documents by the sum of 1 / (k + rank) over the lists; ranks start at 1, an absent document adds 0.

    Args:
        rankings: Lists of document ids, best first. If a list repeats an id, its first position counts and the
            repetitions take no rank.
        k: How much the first ranks are damped, > -1.

    Returns:
        (document, score), best first. Ties are broken by the best rank, then by the earlier list that has it, which is
        different for any two documents.

    Source:
        Cormack, Clarke and Buettcher (SIGIR 2009), k = 60; the ResearchArena paper fuses the decomposer's queries
        in this way.
    """
    places = _places(rankings)
    return _best_first(places, lambda document: math.fsum(1 / (k + place.rank) for place in places[document]))


def maximum_score_fusion(rankings: Sequence[Iterable[tuple[D, float]]]) -> list[tuple[D, float]]:
    """Ranks documents by their best score in any list (CombMAX), best first.

    Args:
        rankings: Lists of (document id, score), best first.

    Returns:
        (document, score); ties as in `reciprocal_rank_fusion`.

    Source:
        Fox and Shaw (TREC-2); the published ResearchArena code uses this instead of reciprocal rank fusion.
    """
    lists = [list(ranking) for ranking in rankings]
    best: dict[D, float] = {}
    for ranking in lists:
        for document, score in ranking:
            best[document] = max(score, best.get(document, -math.inf))
    return _best_first(_places([[document for document, _ in ranking] for ranking in lists]), best.__getitem__)


class WeightedList(NamedTuple):
    """Hits of one search, and what they count in a fusion."""

    weight: float
    hits: Sequence[Hit]


def normalized_score_fusion(lists: Sequence[WeightedList]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Returns all documents, ascending, with the weighted sum of their scores, each list scaled to 0..1 (CombSUM).

    Returns:
        Document ids `(n,)`, and their scores `(n,)`. A document adds 0 where a list does not have it; all of a list
        whose scores are equal have 1.

    Source:
        Fox and Shaw (TREC-2); scaled as by Lee (SIGIR 1997).
    """
    ids = np.unique([hit.corpus_id for _, hits in lists for hit in hits]).astype(np.int64)
    scores = np.zeros(len(ids))
    for weight, hits in lists:
        if hits:
            given = np.array([hit.score for hit in hits])
            spread = given.max() - given.min()
            scaled = (given - given.min()) / spread if spread else np.ones(len(given))
            scores[np.searchsorted(ids, [hit.corpus_id for hit in hits])] += weight * scaled
    return ids, scores


def _places(rankings: Sequence[Iterable[D]]) -> dict[D, list[_Place]]:
    """Returns all positions of each document, in the order of the lists."""
    places: dict[D, list[_Place]] = {}
    for number, ranking in enumerate(rankings):
        for rank, document in enumerate(dict.fromkeys(ranking), 1):
            places.setdefault(document, []).append(_Place(rank, number))
    return places


def _best_first(places: dict[D, list[_Place]], score: Callable[[D], float]) -> list[tuple[D, float]]:
    scored = [(document, score(document)) for document in places]
    return sorted(scored, key=lambda pair: (-pair[1], min(places[pair[0]])))
