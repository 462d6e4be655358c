"""A judge that returns only the level, to measure what the confidence and reason of `paper_lantern` add."""

from pydantic import BaseModel, ConfigDict, Field

from schemas.llm import Parameters
from tasks.search.judge import Verdict, judge


class Level(BaseModel):
    """The judgment."""

    model_config = ConfigDict(extra="forbid", strict=True)

    relevanceScore: int = Field(ge=0, le=5)  # noqa: N815


@judge(
    "score_only",
    "Six levels of relevance alone, to compare with.",
    prompt="judge_score_only",
    answer=Level,
    parameters=Parameters(temperature=0.01, max_tokens=64),
)
def score_only(answer: Level) -> Verdict:
    """Returns the level unchanged."""
    return Verdict(answer.relevanceScore)
