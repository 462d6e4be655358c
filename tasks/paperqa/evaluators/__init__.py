"""Scores an answer with the evaluator of its question.

What belongs here: the entry points and the evaluators, grouped by file. What does not: which questions are scored, and
means over them (`tasks.paperqa.scores`).
"""

import logging
from collections.abc import Mapping
from typing import NamedTuple

from tasks.paperqa.evaluators import foreign, formula, judged, logical, match, retrieval, sets
from tasks.paperqa.evaluators.registry import Judge, NotingJudge, evaluator_parts, get_evaluator

__all__ = ["GROUPS", "AnswerScore", "Judge", "evaluate_answer", "is_error_answer", "score_answer"]

GROUPS = (match, sets, retrieval, judged, formula, logical, foreign)
"""Modules whose evaluators are registered."""

ERROR_MARK = "[ERROR]:"

_log = logging.getLogger(__name__)


class AnswerScore(NamedTuple):
    """A score with its reason.

    `failure` says why the evaluator could not score, or is None. With `no_verdict`, the judge replied, and its reply
    holds no verdict.
    """

    score: float
    failure: str | None
    no_verdict: bool = False


def evaluate_answer(evaluator: Mapping[str, object], answer: object, judge: Judge | None = None) -> float:
    """Scores an answer.

    Args:
        evaluator: `eval_func`, the name of a registered evaluator, and `eval_kwargs`, what it is given.
        answer: The system's answer, of any type; text is never executed.
        judge: Grades free text: (system message, user message, model, temperature) -> reply. The judged and formula
            groups need it, also inside logical evaluators; without it their answers score 0.0.

    Returns:
        0.0 or 1.0 (the evaluators of the two foreign data sets use their own scales). 0.0 if the evaluator cannot score
        the answer: it or the judge failed, or the answer is the text of a failed run (`[ERROR]:...`). A judge's reply
        without a verdict counts as false.

    Raises:
        BadInput: The evaluator's name is unknown, or it is not an evaluator at all.
    """
    return _evaluate(evaluator, answer, judge).score


def score_answer(evaluator: Mapping[str, object], answer: object, judge: Judge | None = None) -> AnswerScore:
    """Scores an answer like `evaluate_answer`, with the reason if the evaluator could not score.

    If a reply of the judge holds no verdict, the score is 0.0, also inside a negation.

    Raises:
        BadInput: The evaluator's name is unknown, or it is not an evaluator at all.
    """
    noting = NotingJudge(judge) if judge else None
    found = _evaluate(evaluator, answer, noting)
    if noting is None or not noting.without_verdict or found.failure is not None:
        return found
    return AnswerScore(0.0, f"the judge's reply holds no verdict: {noting.without_verdict[0][:400]!r}", no_verdict=True)


def _evaluate(evaluator: Mapping[str, object], answer: object, judge: Judge | None) -> AnswerScore:
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
    """Returns whether an answer is the text of a failed run."""
    return isinstance(answer, str) and answer.startswith(ERROR_MARK)
