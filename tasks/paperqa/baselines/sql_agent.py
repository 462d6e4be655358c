"""Symbolic retrieval: an agent that writes SQL over the papers' contents."""

from schemas.paperqa import Question
from tasks.paperqa.actions import actions
from tasks.paperqa.agent import DEMAND, run_agent
from tasks.paperqa.baseline import Answered, Kit, paperqa_baseline


@paperqa_baseline(
    "sql_agent",
    "An agent that queries the database of the papers' contents, views pages and calculates.",
    version=2,
    asks=DEMAND,
)
def sql_agent(question: Question, kit: Kit) -> Answered:
    """Runs an agent that can query the database."""
    return run_agent(question, kit, actions("retrieve_from_database", "calculate", "view_image"))
