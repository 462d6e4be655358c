"""The score-only judge: one level stricter than Paper Lantern's if the title has no word of the query."""

from pydantic import BaseModel

from tasks.demo.standin.rule import Asked, answers
from tasks.demo.standin.rules.judge_paper_lantern import overlap_level
from tasks.demo.standin.words import subject_words
from tasks.search.judges.score_only import Level


@answers("judge_score_only")
def judge_score_only(asked: Asked) -> BaseModel:
    """Returns the level, which is never below 0."""
    level, shared = overlap_level(asked)
    in_title = set(shared) & set(subject_words(asked.first("title")))
    return Level(relevanceScore=level if in_title else max(0, level - 1))
