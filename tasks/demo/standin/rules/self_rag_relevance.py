"""Self-RAG's relevance: a paper is relevant if it shares two subject words, or one if the title has only one."""

from tasks.demo.standin.rule import Asked, answers
from tasks.demo.standin.words import subject_words
from tasks.ranking.baselines.self_rag import Relevance


@answers("self_rag_relevance")
def self_rag_relevance(asked: Asked) -> Relevance:
    """Counts shared words."""
    subject = set(subject_words(asked.first("title")))
    shared = subject & set(subject_words(asked.first("document")))
    return Relevance(verdict="relevant" if shared and len(shared) >= min(2, len(subject)) else "irrelevant")
