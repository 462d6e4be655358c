"""Subject: the title is searched without the words that only say that it is a survey."""

from schemas.topic import Topic
from tasks.ranking.agents.queries import subject_query
from tasks.ranking.baseline import Kit, Ranking, baseline


@baseline("subject", "Searches for the title without words such as 'a comprehensive survey of'.", extends="title")
def subject(topic: Topic, kit: Kit) -> Ranking:
    """Searches the title's subject once: every paper of the field shares its words, few share the word "survey"."""
    return Ranking(kit.desk.search(subject_query(topic.title), kit.cutoff))
