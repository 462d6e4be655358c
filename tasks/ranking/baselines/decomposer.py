"""Decomposer: a model breaks the subject into queries, and what they find is fused."""

import re
from collections.abc import Callable, Sequence

from schemas.errors import BadInput
from schemas.identifiers import CorpusId
from schemas.llm import Demand
from schemas.topic import Hit, Topic
from tasks.ranking.agents.queries import hits_by_rank, listed_queries, title_query
from tasks.ranking.agents.reading import ask_and_parse
from tasks.ranking.baseline import Kit, Ranking, baseline
from tasks.retrieval.fusion import maximum_score_fusion, reciprocal_rank_fusion

MOST_QUERIES = 32

_QUERIES = re.compile(r".*<Queries>(.*?)(?:</Queries>|\Z)", re.DOTALL | re.IGNORECASE)

Fuse = Callable[[Sequence[Sequence[Hit]]], list[tuple[CorpusId, float]]]

DEMAND = Demand(calls=1, read=590, written=250)


@baseline(
    "decomposer", "Searches for each query that a language model breaks the title into, and fuses by rank.", asks=DEMAND
)
def decomposer(topic: Topic, kit: Kit) -> Ranking:
    """Searches each query that the model writes and fuses the results by rank; without queries, searches the title.

    Source: ResearchArena (arXiv 2406.10291), baseline Decomposer, after Researchy Questions (arXiv 2402.17896).

    Deviates: The published code takes each document's best score (`decomposer_max`), and leaves surveys without queries
    out of the mean.
    """
    return _decompose(topic, kit, _by_rank)


@baseline("decomposer_max", "As decomposer, but a document counts by its best score for any query.", asks=DEMAND)
def decomposer_max(topic: Topic, kit: Kit) -> Ranking:
    """As `decomposer` with the fusion of the published code."""
    return _decompose(topic, kit, lambda lists: maximum_score_fusion(lists))


@baseline("decomposer_title", "As decomposer, with the title among the queries.", asks=DEMAND)
def decomposer_title(topic: Topic, kit: Kit) -> Ranking:
    """As `decomposer`, with the results for the title as the first list."""
    return _decompose(topic, kit, _by_rank, [title_query(topic.title)])


def read_queries(text: str) -> list[str]:
    """Returns the queries in the block `<Queries>` of an answer, one a line; a block that is not closed ends the text.

    Raises:
        BadInput: The answer has no queries.
    """
    block = _QUERIES.match(text)
    queries = listed_queries(block[1].splitlines(), MOST_QUERIES) if block else []
    if not queries:
        raise BadInput("there is no block <Queries> with queries in the answer")
    return queries


def _decompose(topic: Topic, kit: Kit, fuse: Fuse, further: Sequence[str] = ()) -> Ranking:
    queries, problem = ask_and_parse(kit.model, "decomposer", {"title": topic.title}, read_queries)
    if queries is None:
        return Ranking(kit.desk.search(title_query(topic.title), kit.cutoff), note=problem, fallback=True)
    lists = [kit.desk.search(query, kit.cutoff) for query in [*further, *queries]]
    return Ranking(hits_by_rank([corpus_id for corpus_id, _ in fuse(lists)], kit.cutoff))


def _by_rank(lists: Sequence[Sequence[Hit]]) -> list[tuple[CorpusId, float]]:
    return reciprocal_rank_fusion([[hit.corpus_id for hit in hits] for hits in lists])
