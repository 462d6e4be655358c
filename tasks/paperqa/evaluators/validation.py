"""Whether an evaluator, as it stands in the data, is one that can score."""

import reprlib
from collections.abc import Iterator, Mapping

from schemas.errors import BadInput
from tasks.paperqa.evaluators.registry import JUDGED_GROUPS, Evaluator, Violation, evaluator_parts, get_evaluator

MAX_DEPTH = 20
"""Evaluators inside evaluators; no published one goes deeper than two."""


def walk_evaluators(spec: object, depth: int = 0) -> Iterator[Evaluator]:
    """Every evaluator in the tree, outermost first.

    Raises:
        BadInput: One is unknown or malformed, or the tree is too deep.
    """
    name, kwargs = evaluator_parts(spec)
    function = get_evaluator(name)
    yield function
    if function.group == "logical":
        if depth >= MAX_DEPTH:
            raise BadInput(f"evaluators are nested more than {MAX_DEPTH} deep: flatten them")
        for part, arguments in function.read_options(kwargs).parts().values():
            yield from walk_evaluators({"eval_func": part, "eval_kwargs": arguments}, depth + 1)


def is_subjective(spec: object) -> bool:
    """Whether a model's verdict is needed anywhere in the tree.

    Raises:
        BadInput: One is unknown or malformed.
    """
    return any(function.group in JUDGED_GROUPS for function in walk_evaluators(spec))


def evaluator_violations(spec: object, where: str = "evaluator", depth: int = 0) -> Iterator[Violation]:
    """What of an evaluator, and of those inside it, its registry entry forbids."""
    try:
        name, kwargs = evaluator_parts(spec)
        function = get_evaluator(name)
    except BadInput as error:
        yield Violation("V5", where, str(error))
        return
    if depth > MAX_DEPTH:
        yield Violation("V5", where, f"evaluators are nested more than {MAX_DEPTH} deep")
        return
    yield from _argument_violations(function, kwargs, where)
    if function.required - kwargs.keys():
        return
    options = function.options(**{key: value for key, value in kwargs.items() if key in function.kinds})
    broken = [violation._replace(where=f"{where}.{violation.where}") for violation in options.violations()]
    yield from broken
    parts = {} if any(violation.rule == "V5" for violation in broken) else options.parts()
    for place, (part, arguments) in parts.items():
        yield from evaluator_violations({"eval_func": part, "eval_kwargs": arguments}, f"{where}.{place}", depth + 1)


def _argument_violations(function: Evaluator, kwargs: Mapping[str, object], where: str) -> Iterator[Violation]:
    for key in sorted(function.required - kwargs.keys()):
        yield Violation("V5", f"{where}.{key}", f"{function.name} lacks the required {key}")
    for key in function.unknown(kwargs):
        yield Violation("W9", f"{where}.{key}", f"{function.name} knows no {key}")
    for key, kind in function.kinds.items():
        if key in kwargs and not kind.fits(kwargs[key]):
            message = f"{function.name} takes {kind.meaning} as {key}, not {reprlib.repr(kwargs[key])}"
            yield Violation(kind.rule, f"{where}.{key}", message)
