"""Two hops: what the first hits are linked to, and what that is linked to."""

from schemas.topic import Topic
from tasks.ranking.baseline import Kit, Ranking, baseline
from tasks.ranking.expansion.citations import step_scores
from tasks.ranking.expansion.graph_search import GraphSettings, search_graph

SETTINGS = GraphSettings(hops=2)


@baseline(
    "two_hops", "As one_hop, with a second step along citations, which counts half.", graph=True, extends="one_hop"
)
def two_hops(topic: Topic, kit: Kit) -> Ranking:
    """Ranks all papers within two steps of the first hits; each paper shares its weight among its neighbours."""
    return search_graph(topic, kit, SETTINGS, lambda around: step_scores(around, 2))
