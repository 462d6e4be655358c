"""The survey's title as the one query."""

from schemas.topic import Topic
from tasks.ranking.baseline import Kit, Ranking, baseline


@baseline("title", "Searches once, for the survey's title in lower case.")
def title(topic: Topic, kit: Kit) -> Ranking:
    """Searches the desk's primary engine for the title.

    Source: ResearchArena (arXiv 2406.10291), baseline Title.
    """
    return Ranking(kit.desk.search(topic.title.lower().strip(), kit.cutoff))
