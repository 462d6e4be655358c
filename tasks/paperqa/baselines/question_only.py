"""Answers from the question alone: what the model knows without any paper."""

from schemas.paperqa import Question
from tasks.paperqa.baseline import Answered, Kit, paperqa_baseline
from tasks.paperqa.oneshot import answer_in_one_call


@paperqa_baseline(
    "question_only",
    "The question and the form of the answer, nothing else.",
    searches=False,
)
def question_only(question: Question, kit: Kit) -> Answered:
    """Asks once without papers or their titles."""
    return answer_in_one_call(question, kit, material=None)
