"""Answers from the titles and abstracts of the papers that the question names."""

from schemas.paperqa import Question
from tasks.paperqa.baseline import Answered, Kit, cut, paperqa_baseline
from tasks.paperqa.oneshot import answer_in_one_call


@paperqa_baseline(
    "title_abstract",
    "The question after titles and abstracts of the papers that it names.",
    searches=False,
)
def title_abstract(question: Question, kit: Kit) -> Answered:
    """Asks once with title and abstract of each named paper, cut where they are too long."""
    texts = [f"{card.title}\n{card.abstract}" for card in kit.desk.anchors]
    joined = cut("\n\n".join(texts), kit.limits.evidence_tokens)
    titles = [card.title for card in kit.desk.anchors]
    return answer_in_one_call(question, kit, [joined] if joined else [], titles)
