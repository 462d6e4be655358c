"""Hybrid retrieval: an agent that uses SQL and passage search, as in NeuSym-RAG."""

from schemas.paperqa import Question
from tasks.paperqa.actions import actions
from tasks.paperqa.agent import DEMAND, run_agent
from tasks.paperqa.baseline import Answered, Kit, paperqa_baseline


@paperqa_baseline(
    "hybrid_agent",
    "An agent that queries the database, searches passages, views pages and calculates.",
    version=2,
    asks=DEMAND,
)
def hybrid_agent(question: Question, kit: Kit) -> Answered:
    """Runs an agent that can query the database and search passages."""
    return run_agent(
        question, kit, actions("retrieve_from_database", "retrieve_from_vectorstore", "calculate", "view_image")
    )
