"""Evaluators that ask a model for a verdict on free-text answers."""

import re
import reprlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from schemas.errors import BadInput
from tasks.paperqa.evaluators.prompts import fill_prompt
from tasks.paperqa.evaluators.registry import (
    Flag,
    Integer,
    Judge,
    NotingJudge,
    Number,
    Options,
    Text,
    Texts,
    Violation,
    evaluator,
)

_FENCE = re.compile("`{3,}")
_OPENING = re.compile(r"\s*`{3,}[^\s`]+\s*")
"""A line that can only open a block: a closing fence has no tag."""

_ANY_ORDER = "Their order does not matter."
_THIS_ORDER = "They must come in the order in which they are listed."


@dataclass(frozen=True, kw_only=True)
class JudgedOptions(Options):
    """Options of every judged evaluator: the question and the judging model."""

    question: Text
    llm_model: Text = "gpt-4o-mini"
    temperature: Number = 0.0


@dataclass(frozen=True, kw_only=True)
class ReferenceAnswer(JudgedOptions):
    """Options of `eval_reference_answer_with_llm`."""

    reference_answer: Text

    def own_answer(self) -> object:
        """Returns the reference answer."""
        return self.reference_answer


@dataclass(frozen=True, kw_only=True)
class CandidateAnswers(JudgedOptions):
    """Options of `eval_candidate_reference_answer_with_llm`."""

    candidate_reference_answers: Texts

    def own_answer(self) -> object:
        """Returns the first candidate."""
        return next(iter(self.candidate_reference_answers), None)


@dataclass(frozen=True, kw_only=True)
class ScoringPoints(JudgedOptions):
    """Options of `eval_scoring_points_with_llm`."""

    scoring_points: Texts
    ignore_order: Flag = True

    def own_answer(self) -> object:
        """Returns all points, one per line."""
        return "\n".join(self.scoring_points)


@dataclass(frozen=True, kw_only=True)
class PartialScoringPoints(JudgedOptions):
    """Options of `eval_partial_scoring_points_with_llm`."""

    scoring_points: Texts
    count: Integer = 1

    def violations(self) -> Iterator[Violation]:
        """Checks that the count is above 0 and below the number of points."""
        points = len(self.scoring_points) if isinstance(self.scoring_points, list) else 1
        if not isinstance(self.count, int) or not 0 < self.count < points:
            message = f"count is {self.count}, it must be above 0 and below the number of points, {points}"
            yield Violation("V8", "count", message)

    def own_answer(self) -> object:
        """Returns all points, one per line."""
        return "\n".join(self.scoring_points)


@dataclass(frozen=True, kw_only=True)
class ReferenceAndPoints(ScoringPoints):
    """Options of `eval_reference_answer_and_scoring_points_with_llm`."""

    reference_answer: Text


@evaluator("eval_reference_answer_with_llm", "judged", ReferenceAnswer)
def reference_answer(answer: object, options: ReferenceAnswer, judge: Judge | None) -> bool:
    """Returns whether the judge finds that the answer means the same as the reference."""
    return ask_verdict("reference_answer", answer, options, judge, reference=options.reference_answer)


@evaluator("eval_candidate_reference_answer_with_llm", "judged", CandidateAnswers)
def candidate_answers(answer: object, options: CandidateAnswers, judge: Judge | None) -> bool:
    """Returns whether the judge finds that the answer means the same as one of the candidates."""
    candidates = stripped_texts(options.candidate_reference_answers)
    numbered = "\n".join(f"{i}. {text}" for i, text in enumerate(candidates, start=1))
    return ask_verdict("candidate_answers", answer, options, judge, candidates=numbered, number=str(len(candidates)))


@evaluator("eval_scoring_points_with_llm", "judged", ScoringPoints)
def scoring_points(answer: object, options: ScoringPoints, judge: Judge | None) -> bool:
    """Returns whether the judge finds every point in the answer."""
    return ask_verdict("scoring_points", answer, options, judge, **_points_material(options))


@evaluator("eval_partial_scoring_points_with_llm", "judged", PartialScoringPoints)
def partial_scoring_points(answer: object, options: PartialScoringPoints, judge: Judge | None) -> bool:
    """Returns whether the judge finds at least `count` of the points in the answer."""
    points = stripped_texts(options.scoring_points)
    material = {"points": bulleted(points), "number": str(len(points)), "count": str(options.count)}
    return ask_verdict("partial_scoring_points", answer, options, judge, **material)


@evaluator("eval_reference_answer_and_scoring_points_with_llm", "judged", ReferenceAndPoints)
def reference_answer_and_scoring_points(answer: object, options: ReferenceAndPoints, judge: Judge | None) -> bool:
    """Returns whether the judge finds the meaning of the reference and every point in the answer."""
    material = _points_material(options) | {"reference": options.reference_answer}
    return ask_verdict("reference_answer_and_scoring_points", answer, options, judge, **material)


def ask_verdict(name: str, answer: object, options: JudgedOptions, judge: Judge | None, **material: str) -> bool:
    """Asks the judge once and returns the verdict in its reply; a reply without a verdict is noted and counts as false.

    Args:
        name: Prompt file of the task.
        answer: The answer, inserted unchanged.
        options: Question, model and temperature.
        judge: The judge; a `NotingJudge` notes replies without a verdict.
        material: Other texts for the prompt.

    Raises:
        BadInput: There is no judge.
    """
    prompt = fill_prompt(name, frame="verdict", answer=str(answer), question=options.question, **material)
    reply = ask(judge, prompt.system, prompt.user, options)
    verdict = parse_verdict(reply)
    if verdict is None and isinstance(judge, NotingJudge):
        judge.without_verdict.append(reply)
    return verdict or False


def ask(judge: Judge | None, system: str, user: str, options: JudgedOptions) -> str:
    """Returns the judge's reply.

    Raises:
        BadInput: There is no judge.
    """
    if judge is None:
        raise BadInput("this evaluator asks a model, and no judge was given: pass one")
    return judge(system, user, options.llm_model, options.temperature)


def parse_verdict(reply: str) -> bool | None:
    """Returns the verdict in a judge's reply; None if it holds none.

    The verdict is the only word, true or false in any case, of the last fenced block of the required form: with the tag
    `txt` or none, and whitespace inside both fences. Other blocks, such as quoted code, do not matter.
    """
    words = [block.removeprefix("txt") for block in _blocks(reply)]
    demanded = [word for word in words if len(word) > 1 and word[0].isspace() and word[-1].isspace()]
    return {"true": True, "false": False}.get(demanded[-1].strip().lower()) if demanded else None


def _blocks(reply: str) -> Iterator[str]:
    """Yields what stands between paired fences, tag included; fences are paired line by line.

    An open block ends at the next fence, unless that fence has a line of its own with a tag: then the block was never
    closed, and another one begins. A fence after words that no fence follows in its line opens a block only if
    nothing but a tag comes after it.
    """
    start, inside = 0, None
    for line in reply.splitlines(keepends=True):
        fences = [fence.span() for fence in _FENCE.finditer(line)]
        if inside is not None and fences and _OPENING.fullmatch(line):
            inside = None
        while fences:
            begin, end = fences.pop(0)
            if inside is not None:
                yield reply[inside : start + begin]
                inside = None
            elif fences or not line[:begin].strip() or len(line[end:].split()) < 2:
                inside = start + end
        start += len(line)


def stripped_texts(items: object) -> list[str]:
    """Returns the items of a list of texts without outer whitespace; a single text is a list of one.

    Raises:
        BadInput: It is not a list of texts.
    """
    listed = cast("list[object]", items) if isinstance(items, list) else [items]
    texts = [item.strip() for item in listed if isinstance(item, str)]
    if len(texts) != len(listed):
        raise BadInput(f"a list of strings is needed, not {reprlib.repr(items)}")
    return texts


def bulleted(texts: list[str]) -> str:
    """Formats texts as a list, one `- text` per line."""
    return "\n".join(f"- {text}" for text in texts)


def order_rule(ignore_order: object) -> str:
    """Returns the sentence that tells a judge whether order matters."""
    return _ANY_ORDER if ignore_order else _THIS_ORDER


def _points_material(options: ScoringPoints) -> dict[str, str]:
    points = stripped_texts(options.scoring_points)
    return {"points": bulleted(points), "number": str(len(points)), "order": order_rule(options.ignore_order)}
