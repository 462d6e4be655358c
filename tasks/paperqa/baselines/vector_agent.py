"""Neural retrieval: an agent that searches passages of any kind."""

from schemas.paperqa import Question
from tasks.paperqa.actions import actions
from tasks.paperqa.agent import DEMAND, run_agent
from tasks.paperqa.baseline import Answered, Kit, paperqa_baseline


@paperqa_baseline(
    "vector_agent",
    "An agent that searches passages by meaning or by words, views pages and calculates.",
    version=2,
    asks=DEMAND,
)
def vector_agent(question: Question, kit: Kit) -> Answered:
    """Runs an agent that can search passages of any kind."""
    return run_agent(question, kit, actions("retrieve_from_vectorstore", "calculate", "view_image"))
