"""Influence: a ranking for selection, by text, citations for their age, and centrality among the hits."""

import numpy as np
from pydantic import Field

from schemas.settings import Settings
from schemas.topic import Topic
from tasks.ranking.agents.queries import hits_by_rank
from tasks.ranking.baseline import Kit, Ranking, baseline
from tasks.ranking.expansion.citations import look_around, personalised_pagerank, seed_weights
from tasks.ranking.expansion.graph_search import search_subject
from tasks.retrieval.desk import ResearchDesk

YEAR = 365.25


class InfluenceSettings(Settings):
    """What counts how much for a paper's influence."""

    candidates: int = Field(default=300, ge=1, description="First hits that are ranked.")
    citations: float = Field(default=0.5, ge=0, description="Weight of citations a year; the text's rank has 1.")
    centrality: float = Field(default=0.5, ge=0, description="Weight of centrality among the candidates.")
    damping: float = Field(default=60.0, gt=0, description="How much the first ranks are damped, as in rank fusion.")


SETTINGS = InfluenceSettings()


@baseline(
    "influence",
    "Ranks the subject's hits by text, citations a year and PageRank among them.",
    graph=True,
    extends="subject",
)
def influence(topic: Topic, kit: Kit) -> Ranking:
    """Fuses three rankings of the subject's first hits: by text, by citations a year, by PageRank among them.

    Citations are those that the topic may see, so they are the counts of the day before its horizon, and a survey or a
    later paper adds none. The year of publication counts as one year. The venue is not used: documents have none.

    Source: selection in ResearchArena (arXiv 2406.10291) wants influential papers first; fusion: Cormack et al., 2009.
    """
    return rank_influence(topic, kit, SETTINGS)


def rank_influence(topic: Topic, kit: Kit, settings: InfluenceSettings) -> Ranking:
    """Ranks a topic's candidates as `influence` does, with other settings."""
    desk = kit.desk
    found = search_subject(desk, topic.title, max(kit.cutoff, settings.candidates))
    ids = [int(hit.corpus_id) for hit in found]
    lists = [(1.0, ids)]
    if desk.has_graph and found:
        lists.append((settings.citations, _most_cited(desk, ids)))
        weights = seed_weights(found)
        around = look_around(desk, weights, 1).within(ids)
        central = [int(hit.corpus_id) for hit in around.ranked(personalised_pagerank(around)) if around.cited(hit)]
        lists.append((settings.centrality, central))
    scores = dict.fromkeys(ids, 0.0)
    for weight, ranked in lists:
        for rank, paper in enumerate(ranked, 1):
            scores[paper] += weight / (settings.damping + rank)
    return Ranking(hits_by_rank(sorted(ids, key=lambda paper: -scores[paper]), kit.cutoff))


def _most_cited(desk: ResearchDesk, ids: list[int]) -> list[int]:
    """Returns the papers that are cited at all, by citations a year, the most first."""
    counts = np.array([desk.citations(paper, 1).total for paper in ids])
    rates = counts / np.maximum(desk.ages(ids) / YEAR, 1.0)
    return [ids[place] for place in np.argsort(-rates, kind="stable").tolist() if rates[place] > 0]
