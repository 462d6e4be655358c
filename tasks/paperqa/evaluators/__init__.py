"""Scoring an answer by the evaluator that its question carries.

What belongs here: the two entry points, and the list of groups. What does not: any single evaluator.
"""

import logging
from collections.abc import Mapping
from typing import NamedTuple

from tasks.paperqa.evaluators import foreign, formula, judged, logical, match, retrieval, sets
from tasks.paperqa.evaluators.registry import Judge, evaluator_parts, get_evaluator

__all__ = ["GROUPS", "AnswerScore", "Judge", "evaluate_answer", "is_error_answer", "score_answer"]

GROUPS = (match, sets, retrieval, judged, formula, logical, foreign)
"""The modules whose evaluators are registered."""

ERROR_MARK = "[ERROR]:"

_log = logging.getLogger(__name__)


class AnswerScore(NamedTuple):
    """A score and what it rests on; `failure` says why the evaluator could not score, None when it could."""

    score: float
    failure: str | None


def evaluate_answer(evaluator: Mapping[str, object], answer: object, judge: Judge | None = None) -> float:
    """How right an answer is.

    Args:
        evaluator: `eval_func`, the name of a registered evaluator, and `eval_kwargs`, what it is given.
        answer: Whatever a system answered, of any type; text is never executed.
        judge: Who grades free text, (system message, user message, model, temperature) -> reply. Needed by evaluators
            of the judged and formula groups, also inside logical ones; without it their answers score 0.0.

    Returns:
        0.0 or 1.0 (the evaluators of the two foreign data sets: their own scales). 0.0 when the evaluator cannot score
        the answer: it or the judge failed, or the answer is a failed run's text (`[ERROR]:...`).

    Raises:
        BadInput: The evaluator's name is unknown, or it is not an evaluator at all.
    """
    return score_answer(evaluator, answer, judge).score


def score_answer(evaluator: Mapping[str, object], answer: object, judge: Judge | None = None) -> AnswerScore:
    """As `evaluate_answer`, with the reason where the evaluator could not score.

    Raises:
        BadInput: The evaluator's name is unknown, or it is not an evaluator at all.
    """
    if is_error_answer(answer):
        return AnswerScore(0.0, "the run failed, its answer is an error text")
    name, kwargs = evaluator_parts(evaluator)
    function = get_evaluator(name)
    try:
        return AnswerScore(function(answer, kwargs, judge), None)
    except Exception as error:  # whatever the data, the answer or the judge did: the answer earns nothing
        _log.debug("evaluator %s could not score", name, exc_info=True)
        return AnswerScore(0.0, f"{type(error).__name__}: {error}"[:500])


def is_error_answer(answer: object) -> bool:
    """Whether an answer is the text of a failed run."""
    return isinstance(answer, str) and answer.startswith(ERROR_MARK)
