"""Evaluators of two other data sets that share the evaluator format: M3SciQA and SciDQA."""

import json
import math
import re
from dataclasses import dataclass

from schemas.errors import BadInput
from tasks.paperqa.evaluators.judged import ReferenceAnswer, ask
from tasks.paperqa.evaluators.prompts import fill_prompt
from tasks.paperqa.evaluators.registry import Judge, Number, Text, evaluator

_FENCED = re.compile(r"```\w*\s(.*?)```", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class M3SciQA(ReferenceAnswer):
    """Options of `eval_m3sciqa`."""

    llm_model: Text = "gpt-4-0125-preview"
    temperature: Number = 0.1


@dataclass(frozen=True, kw_only=True)
class SciDQA(ReferenceAnswer):
    """Options of `eval_scidqa`."""

    temperature: Number = 0.1


@evaluator("eval_m3sciqa", "foreign", M3SciQA)
def m3sciqa(answer: object, options: M3SciQA, judge: Judge | None) -> float:
    """Returns the number that the judge selects: usually 0, 0.5 or 1.

    Raises:
        BadInput: The reply has no JSON object with a finite number as `selection`.
    """
    prompt = fill_prompt("m3sciqa", answer=str(answer), question=options.question, reference=options.reference_answer)
    reply = ask(judge, prompt.system, prompt.user, options)
    fenced = _FENCED.search(reply)
    selection = float(json.loads(fenced[1] if fenced else reply)["selection"])
    if not math.isfinite(selection):
        raise BadInput(f"the judge selected {selection}: a finite number is needed")
    return selection


@evaluator("eval_scidqa", "foreign", SciDQA)
def scidqa(answer: object, options: SciDQA, judge: Judge | None) -> float:
    """Returns the grade (1 to 10) in the first call's report, extracted by a second call, rounded to two decimals.

    Raises:
        ValueError: The second reply is not a number.
    """
    grading = fill_prompt(
        "scidqa_grade", answer=str(answer), question=options.question, reference=options.reference_answer
    )
    report = ask(judge, grading.system, grading.user, options)
    extraction = fill_prompt("scidqa_extract", report=report)
    grade = round(float(ask(judge, extraction.system, extraction.user, options)), 2)
    if not math.isfinite(grade):
        raise BadInput(f"the judge graded {grade}: a finite number is needed")
    return grade
