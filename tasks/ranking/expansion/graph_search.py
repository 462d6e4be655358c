"""Ranks papers by citations around the first hits of a search."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from schemas.settings import Settings
from schemas.topic import Hit, Topic
from tasks.ranking.agents.queries import hits_by_rank, subject_query
from tasks.ranking.baseline import Kit, Ranking
from tasks.ranking.expansion.citations import Neighbourhood, look_around, seed_weights
from tasks.retrieval.desk import ResearchDesk
from tasks.retrieval.fusion import reciprocal_rank_fusion

Score = Callable[[Neighbourhood], NDArray[np.float64]]
"""Returns the scores `(n,)` of the papers of a neighbourhood."""


class GraphSettings(Settings):
    """Where a search along citations begins, and how far it goes."""

    seeds: int = Field(default=50, ge=1, description="First hits of the subject, from which the search begins.")
    hops: int = Field(default=2, ge=1, description="Steps along citations, in both directions.")


def search_subject(desk: ResearchDesk, title: str, depth: int) -> list[Hit]:
    """Returns the first hits for a title's subject; those of several engines are fused by rank."""
    lists = [desk.search(subject_query(title), depth, engine) for engine in desk.spaces]
    fused = reciprocal_rank_fusion([[hit.corpus_id for hit in hits] for hits in lists])
    return hits_by_rank([corpus_id for corpus_id, _ in fused], depth)


def search_graph(topic: Topic, kit: Kit, settings: GraphSettings, score: Score) -> Ranking:
    """Searches the subject, and ranks the papers around its first hits by a score of the citation graph.

    Papers that citations do not reach follow in the order of the search; so does everything without a citation graph.
    """
    found = search_subject(kit.desk, topic.title, max(kit.cutoff, settings.seeds))
    seeds = found[: settings.seeds]
    if not seeds:
        return Ranking([])
    around = look_around(kit.desk, seed_weights(seeds), settings.hops)
    reached = [hit.corpus_id for hit in around.ranked(score(around))]
    return Ranking(hits_by_rank(list(dict.fromkeys([*reached, *(hit.corpus_id for hit in found)])), kit.cutoff))
