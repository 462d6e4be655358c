"""Zero-Shot: a model writes one query for the survey's title."""

from schemas.llm import Demand
from schemas.topic import Topic
from tasks.ranking.agents.queries import title_query, zero_shot_query
from tasks.ranking.baseline import Kit, Ranking, baseline


@baseline(
    "zero_shot",
    "Searches once, for the query that a language model writes for the title.",
    asks=Demand(calls=1, read=150, written=15),
)
def zero_shot(topic: Topic, kit: Kit) -> Ranking:
    """Searches the desk's primary engine for the model's query, or for the title when the model gives none.

    Source: ResearchArena (arXiv 2406.10291), baseline Zero-Shot.
    """
    query, problem = zero_shot_query(kit.model, topic.title)
    hits = kit.desk.search(query or title_query(topic.title), kit.cutoff)
    return Ranking(hits, note=problem or None, fallback=bool(problem))
