"""Decomposes a title: one question per word, and queries of neighbouring words."""

from itertools import pairwise

from tasks.demo.standin.rule import Asked, answers
from tasks.demo.standin.words import subject_words

ASPECTS = ("methods", "evaluation", "applications")


@answers("decomposer")
def decomposer(asked: Asked) -> str:
    """Returns at most 20 queries: all words, neighbouring words, and all words with each aspect."""
    words = subject_words(asked.first("title")) or ["survey"]
    subject = " ".join(words)
    queries = [subject, *(" ".join(pair) for pair in pairwise(words)), *(f"{subject} {word}" for word in ASPECTS)]
    questions = [f"{place}. What is known about {word}?" for place, word in enumerate(words, 1)]
    listed = [f"- {query}" for query in list(dict.fromkeys(queries))[:20]]
    return "\n".join(["<Questions>", *questions, "</Questions>", "<Queries>", *listed, "</Queries>"])
