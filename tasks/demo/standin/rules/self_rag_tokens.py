"""Output of a Self-RAG model: a retrieval token; after a paper, a query between reflection tokens."""

from tasks.demo.standin.rule import Asked, answers
from tasks.demo.standin.words import frequent_words, subject_words

ADDED = 2


@answers("self_rag_tokens")
def self_rag_tokens(asked: Asked) -> str:
    """Asks for retrieval only for the title itself."""
    if asked.messages[-1].role != "assistant":
        return "[No Retrieval]" if asked.first("draft") else "[Retrieval]"
    own, paper = subject_words(asked.first("title")), asked.text.partition("<paragraph>")[2]
    shared = set(own) & set(subject_words(paper))
    added = [word for word in frequent_words([paper], len(own) + ADDED) if word not in own][:ADDED]
    query = " ".join([*own, *added]) or "survey"
    return f"{'[Relevant]' if shared else '[Irrelevant]'} {query} [Partially supported][Utility:{3 if shared else 1}]"
