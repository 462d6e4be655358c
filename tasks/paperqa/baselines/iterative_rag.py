"""Iterative classic RAG: the model writes its own queries, as often as it likes."""

from schemas.paperqa import Question
from tasks.paperqa.actions import actions
from tasks.paperqa.agent import run_agent
from tasks.paperqa.baseline import Answered, Kit, paperqa_baseline


@paperqa_baseline("iterative_rag", "An agent that searches passages by meaning with queries of its own.")
def iterative_rag(question: Question, kit: Kit) -> Answered:
    """Acts by searching passages alone."""
    return run_agent(question, kit, actions("classic_retrieve"))
