"""STORM's queries: the words of the question, and the subject with each half of them."""

from tasks.demo.standin.rule import Asked, answers
from tasks.demo.standin.words import subject_words

ASKING = {"known", "subject", "facts", "basic", "readers"}


@answers("storm_queries")
def storm_queries(asked: Asked) -> str:
    """Returns at most three queries."""
    subject = subject_words(asked.first("title"))
    words = [word for word in subject_words(asked.first("question")) if word not in ASKING]
    queries = (" ".join(dict.fromkeys(part)) for part in (words, subject + words[:1], subject[:3] + words[-3:]))
    return "\n".join(f"- {query}" for query in dict.fromkeys(queries) if query) or "- survey"
