"""Self-RAG's rewritten query: the title's words and the most frequent words of the papers."""

from tasks.demo.standin.rule import Asked, answers
from tasks.demo.standin.words import frequent_words, subject_words
from tasks.ranking.baselines.self_rag import Rewrite

ADDED = 4


@answers("self_rag_rewrite")
def self_rag_rewrite(asked: Asked) -> Rewrite:
    """Returns the query, and a mark that depends on the number of papers."""
    own, documents = subject_words(asked.first("title")), asked.all("documents")
    added = [word for word in frequent_words(documents, len(own) + ADDED) if word not in own][:ADDED]
    return Rewrite(query=" ".join([*own, *added]) or "survey", usefulness=min(5, 1 + len(documents)))
