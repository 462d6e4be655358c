"""A judge that is asked for the level alone: what the confidence and the sentence of `paper_lantern` are worth."""

from pydantic import BaseModel, ConfigDict, Field

from schemas.llm import Parameters
from tasks.search.judge import Verdict, judge


class Level(BaseModel):
    """The judgment as the model writes it."""

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
    """The level as it stands."""
    return Verdict(answer.relevanceScore)
