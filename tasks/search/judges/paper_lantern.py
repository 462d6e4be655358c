"""The benchmark's own judge: a rubric of six levels, a confidence and a one-sentence reason.

Source: Paper Lantern's benchmark of academic paper search, with its settings (temperature 0.01, 4096 tokens).
Deviates: the prompt is written anew; the thinking budget of 0 is sent where the endpoint takes one.
"""

from pydantic import BaseModel, ConfigDict, Field

from schemas.llm import Parameters
from tasks.search.judge import Verdict, judge


class Relevance(BaseModel):
    """The judgment."""

    model_config = ConfigDict(extra="forbid", strict=True)

    relevanceScore: int = Field(ge=0, le=5)  # noqa: N815
    confidenceLevel: int = Field(ge=0, le=10)  # noqa: N815
    summaryStatement: str = Field(min_length=1)  # noqa: N815


class Answer(BaseModel):
    """The JSON object to return."""

    model_config = ConfigDict(extra="forbid", strict=True)

    paper_query_relevance: Relevance


@judge(
    "paper_lantern",
    "Six levels of relevance with a confidence and a sentence, as the Paper Lantern benchmark asks.",
    prompt="judge_paper_lantern",
    answer=Answer,
    parameters=Parameters(temperature=0.01, max_tokens=4096),
)
def paper_lantern(answer: Answer) -> Verdict:
    """Returns the three values unchanged."""
    found = answer.paper_query_relevance
    return Verdict(found.relevanceScore, found.confidenceLevel, " ".join(found.summaryStatement.split()))
