"""Iterative classic RAG: an agent that writes its own queries."""

from schemas.paperqa import Question
from tasks.paperqa.actions import actions
from tasks.paperqa.agent import DEMAND, run_agent
from tasks.paperqa.baseline import Answered, Kit, paperqa_baseline


@paperqa_baseline(
    "iterative_rag",
    "An agent that searches passages by meaning with queries of its own.",
    version=2,
    asks=DEMAND,
)
def iterative_rag(question: Question, kit: Kit) -> Answered:
    """Runs an agent that can only search passages."""
    return run_agent(question, kit, actions("classic_retrieve"))
