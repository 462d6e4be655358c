"""The judge of levels alone: as Paper Lantern's, a level stricter with papers whose title has no word of the query."""

from pydantic import BaseModel

from tasks.judges.score_only import Level
from tasks.standin.rule import Asked, answers
from tasks.standin.rules.judge_paper_lantern import overlap_level
from tasks.standin.words import subject_words


@answers("judge_score_only")
def judge_score_only(asked: Asked) -> BaseModel:
    """Never below 0."""
    level, shared = overlap_level(asked)
    in_title = set(shared) & set(subject_words(asked.first("title")))
    return Level(relevanceScore=level if in_title else max(0, level - 1))
