"""The query anew: the title's words and those that most of the papers hold."""

from tasks.demo.standin.rule import Asked, answers
from tasks.demo.standin.words import frequent_words, subject_words
from tasks.ranking.baselines.self_rag import Rewrite

ADDED = 4


@answers("self_rag_rewrite")
def self_rag_rewrite(asked: Asked) -> Rewrite:
    """Marks it by how many papers there are."""
    own, documents = subject_words(asked.first("title")), asked.all("documents")
    added = [word for word in frequent_words(documents, len(own) + ADDED) if word not in own][:ADDED]
    return Rewrite(query=" ".join([*own, *added]) or "survey", usefulness=min(5, 1 + len(documents)))
