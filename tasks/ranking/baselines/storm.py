"""STORM as a search agent: returns the documents that it found while researching, in that order."""

from schemas.llm import Demand
from schemas.topic import Topic
from tasks.ranking.agents.queries import hits_by_rank, title_query
from tasks.ranking.agents.storm import StormSettings, research
from tasks.ranking.baseline import Kit, Ranking, baseline
from tasks.retrieval.documents import Document

DEMAND = Demand(calls=93, read=100_000, written=12_400)


@baseline(
    "storm", "Lists what simulated conversations of several people with an expert look up, as found.", asks=DEMAND
)
def storm(topic: Topic, kit: Kit) -> Ranking:
    """Returns the documents of all conversations in the order found; without any, the results for the title.

    Source: ResearchArena (arXiv 2406.10291), baseline STORM.
    """
    return _rank(topic, kit, by_turn=False)


@baseline("storm_by_turn", "As storm, but what all people found in their first turn comes first.", asks=DEMAND)
def storm_by_turn(topic: Topic, kit: Kit) -> Ranking:
    """Returns the documents of the same conversations as `storm`, ordered by turn."""
    return _rank(topic, kit, by_turn=True)


def _rank(topic: Topic, kit: Kit, *, by_turn: bool) -> Ranking:
    def search(query: str, number: int) -> list[Document]:
        return kit.desk.read([hit.corpus_id for hit in kit.desk.search(query, number)])

    found = research(topic.title, search, kit.model, StormSettings())
    problems = list(found.problems)
    history = found.history(by_turn=by_turn)
    if not history:
        problems.append("the conversations found nothing")
        history = [int(hit.corpus_id) for hit in kit.desk.search(title_query(topic.title), kit.cutoff)]
    note = f"{len(problems)} problems; the first: {problems[0]}" if problems else None
    return Ranking(hits_by_rank(history, kit.cutoff), note=note, fallback=bool(problems), outline=found.outline)
