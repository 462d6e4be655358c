"""Personalised PageRank from the first hits."""

from schemas.topic import Topic
from tasks.ranking.baseline import Kit, Ranking, baseline
from tasks.ranking.expansion.citations import personalised_pagerank
from tasks.ranking.expansion.graph_search import GraphSettings, search_graph

SETTINGS = GraphSettings(hops=2)


@baseline(
    "pagerank", "Ranks papers by PageRank personalised to the subject's first hits.", graph=True, extends="subject"
)
def pagerank(topic: Topic, kit: Kit) -> Ranking:
    """Ranks the papers within two steps by how often a random walk visits them that restarts at the first hits.

    Source: Page et al., 1999; Haveliwala, Topic-sensitive PageRank, 2002; damping 0.85.
    """
    return search_graph(topic, kit, SETTINGS, personalised_pagerank)
