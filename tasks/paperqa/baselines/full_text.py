"""Answers from the full texts of the papers that the question names, cut at a limit."""

from schemas.paperqa import Question
from tasks.paperqa.baseline import Answered, Kit, cut, paperqa_baseline
from tasks.paperqa.oneshot import answer_in_one_call


@paperqa_baseline(
    "full_text",
    "The question after the beginning of the papers' full texts, joined and cut off.",
    searches=False,
)
def full_text(question: Question, kit: Kit) -> Answered:
    """Asks once with the sections of the named papers, cut where they are too long."""
    texts = [f"{card.title}\n\n{kit.desk.full_text(card.paper_id)}" for card in kit.desk.anchors]
    joined = cut("\n\n".join(texts), kit.limits.evidence_tokens)
    titles = [card.title for card in kit.desk.anchors]
    return answer_in_one_call(question, kit, [joined] if joined else [], titles)
