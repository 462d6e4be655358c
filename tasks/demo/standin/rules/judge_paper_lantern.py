"""Paper Lantern's judge: counts the query's words in the paper; words in the title count twice."""

from pydantic import BaseModel

from tasks.demo.standin.rule import Asked, answers
from tasks.demo.standin.words import subject_words
from tasks.search.judges.paper_lantern import Answer, Relevance

STEPS = (0.08, 0.2, 0.35, 0.5, 0.7)
"""Smallest shares of the query's words for the levels 1, 2, 3, 4, 5."""


def overlap_level(asked: Asked) -> tuple[int, list[str]]:
    """Returns the level of a paper, 0 to 5, and the query's words that it contains."""
    wanted = subject_words(asked.first("query"))
    title, abstract = (set(subject_words(asked.first(name))) for name in ("title", "abstract"))
    shared = [word for word in wanted if word in title | abstract]
    share = sum(1.0 if word in title else 0.6 for word in shared) / max(1, len(wanted))
    return sum(share >= step for step in STEPS), shared


@answers("judge_paper_lantern")
def judge_paper_lantern(asked: Asked) -> BaseModel:
    """Returns a judgment with lower confidence for middle levels and papers without abstract."""
    level, shared = overlap_level(asked)
    sure = (8 if level in (0, 5) else 6) - (0 if asked.first("abstract") else 3)
    why = f"It shares {len(shared)} of the query's words" + (f": {', '.join(shared[:5])}." if shared else ".")
    return Answer(
        paper_query_relevance=Relevance(relevanceScore=level, confidenceLevel=sure, summaryStatement=why),
    )
