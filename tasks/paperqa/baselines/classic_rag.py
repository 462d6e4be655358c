"""Classic RAG: retrieves the passages nearest to the question and answers once."""

from schemas.paperqa import Question
from tasks.paperqa.baseline import Answered, Kit, Step, paperqa_baseline
from tasks.paperqa.oneshot import answer_in_one_call, show_passage


@paperqa_baseline("classic_rag", "The question after the passages that are nearest to it in meaning.")
def classic_rag(question: Question, kit: Kit) -> Answered:
    """Searches with the question itself and asks the model once."""
    found = [show_passage(passage) for passage in kit.desk.search(question.question, kit.limits.passages)]
    looked = Step("classic_retrieve", question.question, "\n\n".join(found))
    return answer_in_one_call(question, kit, found, [card.title for card in kit.desk.anchors], looked)
