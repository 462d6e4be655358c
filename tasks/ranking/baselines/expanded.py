"""Query expansion in its published forms, without a model: RM3 over BM25, Rocchio over embeddings, and their fusion."""

from collections.abc import Iterator

from schemas.topic import Hit, Topic
from tasks.ranking.agents.queries import hits_by_rank, subject_query, title_query
from tasks.ranking.baseline import Kit, Ranking, baseline
from tasks.ranking.expansion.feedback import PUBLISHED, WIDE, ExpansionSettings, expand_query, group_hits
from tasks.retrieval.desk import ResearchDesk
from tasks.retrieval.fusion import reciprocal_rank_fusion

FUSED_DEPTH = 500
"""Length of the lists that are fused."""

SEEDS = 50
"""First hits that are grouped."""


@baseline(
    "expanded",
    "Expands the title by RM3 (BM25) and Rocchio (embeddings) as published, and fuses both.",
    extends="title",
)
def expanded(topic: Topic, kit: Kit) -> Ranking:
    """Searches the title, expands it by what the first hits say, and searches again.

    With BM25 this is RM3: the query's terms are mixed with those of the relevance model of its first hits. With
    embeddings it is Rocchio: the query's vector is moved to the centroid of its first hits. With both, the two lists
    are fused by rank.

    Source:
        RM3: Lavrenko and Croft, SIGIR 2001 (relevance model); Abdul-Jaleel et al., TREC 2004 (mixture). 10 documents,
        10 terms, weight 0.5 and the limit on common terms are Anserini's. Rocchio, The SMART Retrieval System, 1971,
        chapter 14: weights 1 and 0.75, without irrelevant documents. Fusion: Cormack et al., SIGIR 2009.
    """
    return _search_expanded(title_query(topic.title), kit, PUBLISHED)


@baseline("expanded_wide", "As expanded, with 20 documents, 40 terms and less weight on the title.", extends="expanded")
def expanded_wide(topic: Topic, kit: Kit) -> Ranking:
    """As `expanded` with settings for long lists of relevant papers: a survey cites many more than a query wants."""
    return _search_expanded(title_query(topic.title), kit, WIDE)


@baseline(
    "expanded_subject",
    "As expanded_wide, for the title without words such as 'a comprehensive survey of'.",
    extends="expanded_wide",
)
def expanded_subject(topic: Topic, kit: Kit) -> Ranking:
    """As `expanded_wide`; the title's survey words are left out of the first query and of its expansion."""
    return _search_expanded(subject_query(topic.title), kit, WIDE)


@baseline(
    "expanded_diverse",
    "Groups the title's first hits, expands the title by each group, and fuses.",
    extends="expanded_subject",
)
def expanded_diverse(topic: Topic, kit: Kit) -> Ranking:
    """Searches once for each group of first hits, so that no single part of a broad subject takes all places.

    The subject's first `SEEDS` hits are grouped by Ward's method over their weighted terms. Each group expands the
    subject as in `expanded_wide`; the lists of all groups and that of the subject itself are fused by rank. It is
    Decomposer's idea without a model: groups of papers stand for sub-questions.

    Source: Ward, 1963; fusion as in `expanded`.
    """
    desk, query = kit.desk, subject_query(topic.title)
    depth = max(kit.cutoff, FUSED_DEPTH)
    lists: list[list[Hit]] = []
    for engine in desk.spaces:
        found = desk.search(query, depth, engine)
        lists.append(found)
        expanded_queries = [expand_query(desk, query, group, WIDE, engine) for group in group_hits(desk, found[:SEEDS])]
        lists += [desk.search(each, depth, engine) for each in expanded_queries]
    fused = reciprocal_rank_fusion([[hit.corpus_id for hit in hits] for hits in lists])
    return Ranking(hits_by_rank([corpus_id for corpus_id, _ in fused], kit.cutoff))


def _search_expanded(query: str, kit: Kit, settings: ExpansionSettings) -> Ranking:
    desk = kit.desk
    depth = max(kit.cutoff, FUSED_DEPTH) if len(desk.spaces) > 1 else kit.cutoff
    lists = list(_lists(desk, query, depth, settings))
    if len(lists) == 1:
        return Ranking(lists[0])
    fused = reciprocal_rank_fusion([[hit.corpus_id for hit in hits] for hits in lists])
    return Ranking(hits_by_rank([corpus_id for corpus_id, _ in fused], kit.cutoff))


def _lists(desk: ResearchDesk, query: str, depth: int, settings: ExpansionSettings) -> Iterator[list[Hit]]:
    for engine in desk.spaces:
        first = desk.search(query, settings.documents, engine)
        yield desk.search(expand_query(desk, query, first, settings, engine), depth, engine) if first else []
