"""The evaluator of retrieval questions: does the answer name the paper?"""

from dataclasses import dataclass
from typing import cast

from schemas.errors import BadInput
from tasks.paperqa.evaluators.fuzzy import reaches
from tasks.paperqa.evaluators.registry import Options, Text, TextOrTexts, Threshold, evaluator


@dataclass(frozen=True, kw_only=True)
class PaperRelevance(Options):
    """Options of `eval_paper_relevance_with_reference_answer`; the question plays no part in the score."""

    question: Text
    reference_answer: TextOrTexts
    threshold: Threshold = 95

    def own_answer(self) -> object:
        """The title, or the first of the acceptable ones."""
        return next(iter(self.titles()), None)

    def titles(self) -> list[object]:
        """The acceptable titles."""
        reference = self.reference_answer
        return cast("list[object]", reference) if isinstance(reference, list) else [reference]


@evaluator("eval_paper_relevance_with_reference_answer", "retrieval", PaperRelevance, rejects_unknown=True)
def paper_relevance(answer: object, options: PaperRelevance) -> bool:
    """Whether the answer, letter case aside, is alike enough to an acceptable title.

    Raises:
        BadInput: The answer is not text.
    """
    if not isinstance(answer, str):
        raise BadInput(f"a title is text, the answer is {type(answer).__name__}")
    given = answer.lower()
    titles = [title.lower() for title in options.titles() if isinstance(title, str)]
    return any(reaches(given, title, "ratio", options.threshold) for title in titles)
