"""Scores a filled sheet: shares of yes with their intervals, beside those that the paper found by hand."""

from typing import NamedTuple

from scipy.stats import binomtest

from tasks.audit.sheet import Answer, Answers

PUBLISHED = {"survey": (23, 25), "extraction": (20, 25), "relevance": (15, 25)}
"""Number of yes and of all answers by question (Table 4 of the ResearchArena paper)."""


class Share(NamedTuple):
    """A share of yes with its 95 % Wilson interval; None when nothing was answered."""

    yes: int
    judged: int
    share: float | None
    low: float | None
    high: float | None


class Scored(NamedTuple):
    """The answers to one question; `unsure` and `unanswered` items count in no share."""

    question: str
    ours: Share
    paper: Share | None
    unsure: int
    unanswered: int


def score_answers(answers: Answers) -> list[Scored]:
    """Scores every question of a sheet."""
    return [_score(question, given) for question, given in answers.by_question.items()]


def wilson(yes: int, judged: int) -> Share:
    """Returns a share with its Wilson interval.

    Source: Wilson, Probable inference, the law of succession, and statistical inference, JASA 22 (1927).
    """
    if not judged:
        return Share(0, 0, None, None, None)
    interval = binomtest(yes, judged).proportion_ci(0.95, method="wilson")
    return Share(yes, judged, yes / judged, float(interval.low), float(interval.high))


def _score(question: str, given: list[Answer]) -> Scored:
    yes = given.count("yes")
    paper = wilson(*PUBLISHED[question]) if question in PUBLISHED else None
    return Scored(question, wilson(yes, yes + given.count("no")), paper, given.count("unsure"), given.count(""))
