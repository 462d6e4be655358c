"""One hop: the papers that the first hits cite, and those that cite them."""

from schemas.topic import Topic
from tasks.ranking.baseline import Kit, Ranking, baseline
from tasks.ranking.expansion.citations import step_scores
from tasks.ranking.expansion.graph_search import GraphSettings, search_graph

SETTINGS = GraphSettings(hops=1)


@baseline(
    "one_hop",
    "Ranks papers by how many of the subject's first hits they cite or are cited by.",
    graph=True,
    extends="subject",
)
def one_hop(topic: Topic, kit: Kit) -> Ranking:
    """Ranks the first hits and their neighbours by the weights of the hits that they are linked to.

    A hit weighs 1 / (60 + rank), so a paper that is linked to several hits of high rank comes first.
    """
    return search_graph(topic, kit, SETTINGS, lambda around: step_scores(around, 1))
