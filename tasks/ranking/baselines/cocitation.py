"""Co-citation: papers that are cited together with the first hits."""

from schemas.topic import Topic
from tasks.ranking.baseline import Kit, Ranking, baseline
from tasks.ranking.expansion.citations import cocitation_scores
from tasks.ranking.expansion.graph_search import GraphSettings, search_graph

SETTINGS = GraphSettings(hops=2)


@baseline(
    "cocitation",
    "Ranks papers by how often they are cited together with the subject's first hits.",
    graph=True,
    extends="subject",
)
def cocitation(topic: Topic, kit: Kit) -> Ranking:
    """Ranks papers by the citing papers that they share with the first hits.

    Source: Small, Co-citation in the scientific literature, 1973.
    """
    return search_graph(topic, kit, SETTINGS, cocitation_scores)
