"""Expansion: a search, one hop along citations in both directions, and text and citations fused."""

from collections import Counter

import numpy as np
from pydantic import Field

from schemas.identifiers import CorpusId
from schemas.settings import Settings
from schemas.topic import Topic
from tasks.ranking.agents.queries import hits_by_rank, subject_query
from tasks.ranking.baseline import Kit, Ranking, baseline
from tasks.ranking.expansion.citations import look_around, seed_weights, step_scores
from tasks.ranking.expansion.feedback import WIDE, expand_query
from tasks.retrieval.desk import ResearchDesk
from tasks.retrieval.fusion import reciprocal_rank_fusion

DEPTH = 500
"""Length of the fused lists."""


class CitationExpansionSettings(Settings):
    """How far citations reach, and what they count."""

    seeds: int = Field(default=50, ge=1, description="First hits whose references and citations are looked up.")
    linked: int = Field(default=2, ge=1, description="Seeds that a paper must be linked to.")
    citations: float = Field(default=0.5, ge=0, description="Weight of the list of linked papers; a text's list has 1.")


SETTINGS = CitationExpansionSettings()


@baseline(
    "expansion",
    "Searches by text, adds papers that several hits cite or are cited by, and fuses.",
    graph=True,
    extends="expanded_subject",
)
def expansion(topic: Topic, kit: Kit) -> Ranking:
    """Fuses expanded searches with the papers one hop from their first hits.

    1. The subject is searched in every index, and expanded there by its first hits (RM3, Rocchio).
    2. Of the fused lists the first `seeds` papers are looked up. Papers that at least `linked` of them cite, or that
       cite as many of them, are ranked by the weights of those seeds, ties by similarity to the subject.
    3. That list joins the fusion.

    Without a citation graph, or where seeds share no neighbours, this is `expanded_subject`.
    """
    return expand_along_citations(topic, kit, SETTINGS)


def expand_along_citations(topic: Topic, kit: Kit, settings: CitationExpansionSettings) -> Ranking:
    """Ranks as `expansion` does, with other settings."""
    desk, query, depth = kit.desk, subject_query(topic.title), max(kit.cutoff, DEPTH)
    lists: list[list[CorpusId]] = []
    for engine in desk.spaces:
        first = desk.search(query, WIDE.documents, engine)
        hits = desk.search(expand_query(desk, query, first, WIDE, engine), depth, engine) if first else []
        lists.append([hit.corpus_id for hit in hits])
    fused = [paper for paper, _ in reciprocal_rank_fusion(lists)]
    scores = dict(reciprocal_rank_fusion(lists))
    linked = _linked(desk, query, fused, settings)
    for rank, paper in enumerate(linked, 1):
        scores[paper] = scores.get(paper, 0.0) + settings.citations / (60 + rank)
    best_first = sorted(dict.fromkeys([*fused, *linked]), key=lambda paper: -scores[paper])
    return Ranking(hits_by_rank(best_first, kit.cutoff))


def _linked(
    desk: ResearchDesk, query: str, fused: list[CorpusId], settings: CitationExpansionSettings
) -> list[CorpusId]:
    """Returns the papers that enough of the first hits are linked to, best first."""
    seeds = hits_by_rank(fused, settings.seeds)
    if not seeds:
        return []
    around = look_around(desk, seed_weights(seeds), 1)
    times = Counter({int(i): int(n) for i, n in zip(around.ids, around.links(), strict=True)})
    scores = step_scores(around, 1) - around.restart
    found = [hit for hit in around.ranked(scores) if times[int(hit.corpus_id)] >= settings.linked]
    if not (desk.has_vectors and found):
        return [hit.corpus_id for hit in found]
    similar = desk.vectors([hit.corpus_id for hit in found]) @ desk.embed([query])[0]
    order = np.lexsort((-similar, [-hit.score for hit in found]))
    return [found[place].corpus_id for place in order.tolist()]
