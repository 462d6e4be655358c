"""Evaluators that combine others: conjunction, disjunction, negation."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from tasks.paperqa.evaluators.parsing import as_list
from tasks.paperqa.evaluators.registry import (
    Anything,
    Evaluator,
    Items,
    Judge,
    Options,
    Text,
    Violation,
    evaluator,
    evaluator_parts,
    get_evaluator,
)


@dataclass(frozen=True, kw_only=True)
class Parts(Options):
    """Options of `eval_conjunction` and `eval_disjunction`: functions and their keyword arguments, by position."""

    eval_func_list: Items
    eval_kwargs_list: Items

    def violations(self) -> Iterator[Violation]:
        """Checks that the two lists have the same length."""
        functions, arguments = self.eval_func_list, self.eval_kwargs_list
        if not isinstance(functions, list) or not isinstance(arguments, list) or len(functions) != len(arguments):
            message = f"{_length(functions)} in eval_func_list against {_length(arguments)} in eval_kwargs_list"
            yield Violation("V5", "eval_kwargs_list", message)

    def parts(self) -> dict[str, tuple[object, object]]:
        """Returns the combined evaluators."""
        pairs = zip(self.eval_func_list, self.eval_kwargs_list, strict=True)
        return {f"eval_kwargs_list[{i}]": pair for i, pair in enumerate(pairs)}

    def own_answer(self) -> object:
        """Returns the list of the parts' own answers."""
        found = [_found(part) for part in self.parts().values()]
        return [function.read_options(kwargs).own_answer() for function, kwargs in found]


@dataclass(frozen=True, kw_only=True)
class Negated(Options):
    """Options of `eval_negation`."""

    eval_func: Text
    eval_kwargs: Anything

    def parts(self) -> dict[str, tuple[object, object]]:
        """Returns the negated evaluator."""
        return {"eval_kwargs": (self.eval_func, self.eval_kwargs)}


@evaluator("eval_conjunction", "logical", Parts, rejects_unknown=True)
def conjunction(answer: object, options: Parts, judge: Judge | None) -> bool:
    """Returns whether every part passes on its element of the answer list; stops at the first failure."""
    elements, parts = as_list(answer), options.parts().values()
    return len(elements) == len(parts) and all(
        _score(part, element, judge) >= 0.5 for part, element in zip(parts, elements, strict=True)
    )


@evaluator("eval_disjunction", "logical", Parts, rejects_unknown=True)
def disjunction(answer: object, options: Parts, judge: Judge | None) -> bool:
    """Returns whether any part passes on its element of the answer list; stops at the first success."""
    elements, parts = as_list(answer), options.parts().values()
    return len(elements) == len(parts) and any(
        _score(part, element, judge) > 0.5 for part, element in zip(parts, elements, strict=True)
    )


@evaluator("eval_negation", "logical", Negated, rejects_unknown=True)
def negation(answer: object, options: Negated, judge: Judge | None) -> float:
    """Returns 1 minus the score of the negated evaluator; a failure inside stays a failure."""
    return 1.0 - _score((options.eval_func, options.eval_kwargs), answer, judge)


def _score(part: tuple[object, object], element: object, judge: Judge | None) -> float:
    function, kwargs = _found(part)
    return function(element, kwargs, judge)


def _found(part: tuple[object, object]) -> tuple[Evaluator, Mapping[str, object]]:
    name, kwargs = evaluator_parts({"eval_func": part[0], "eval_kwargs": part[1]})
    return get_evaluator(name), kwargs


def _length(value: object) -> str:
    return str(len(cast("list[object]", value))) if isinstance(value, list) else "no list"
