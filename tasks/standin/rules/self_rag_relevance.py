"""A paper is relevant that shares two words of the subject, or one where the title has no more."""

from tasks.baselines.self_rag import Relevance
from tasks.standin.rule import Asked, answers
from tasks.standin.words import subject_words


@answers("self_rag_relevance")
def self_rag_relevance(asked: Asked) -> Relevance:
    """Counts shared words."""
    subject = set(subject_words(asked.first("title")))
    shared = subject & set(subject_words(asked.first("document")))
    return Relevance(verdict="relevant" if shared and len(shared) >= min(2, len(subject)) else "irrelevant")
