"""The survey's title as the one query."""

from schemas.topic import Topic
from tasks.ranking.baseline import Kit, Ranking, baseline


def _query(topic: Topic) -> str:
    return topic.title.lower().strip()


@baseline("title", "Searches once, for the survey's title in lower case.", opens_with=_query)
def title(topic: Topic, kit: Kit) -> Ranking:
    """Searches the desk's primary engine for the title.

    Source: ResearchArena (arXiv 2406.10291), baseline Title.
    """
    return Ranking(kit.desk.search(_query(topic), kit.cutoff))
