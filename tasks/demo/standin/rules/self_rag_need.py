"""Self-RAG's retrieval decision: retrieve while the query is the title or shorter than ten words."""

from tasks.demo.standin.rule import Asked, answers
from tasks.ranking.baselines.self_rag import Need


@answers("self_rag_need")
def self_rag_need(asked: Asked) -> Need:
    """Answers no once the query has grown."""
    title, draft = asked.first("title").lower().strip(), asked.first("draft")
    return Need(retrieval="yes" if draft == title or len(draft.split()) < 10 else "no")
