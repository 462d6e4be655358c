"""Bibliographic coupling: papers that cite what the first hits cite."""

from schemas.topic import Topic
from tasks.ranking.baseline import Kit, Ranking, baseline
from tasks.ranking.expansion.citations import coupling_scores
from tasks.ranking.expansion.graph_search import GraphSettings, search_graph

SETTINGS = GraphSettings(hops=2)


@baseline(
    "coupling",
    "Ranks papers by how many references they share with the subject's first hits.",
    graph=True,
    extends="subject",
)
def coupling(topic: Topic, kit: Kit) -> Ranking:
    """Ranks papers by the references that they share with the first hits.

    Source: Kessler, Bibliographic coupling between scientific papers, 1963.
    """
    return search_graph(topic, kit, SETTINGS, coupling_scores)
