"""Evaluators that compare an answer's elements with a gold list: included in it, all included, enough in common."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from schemas.errors import BadInput
from tasks.paperqa.evaluators.match import (
    StructureRules,
    same_integer,
    same_number,
    same_or_similar_text,
    same_structure,
)
from tasks.paperqa.evaluators.pairing import largest_pairing
from tasks.paperqa.evaluators.parsing import as_list, as_text
from tasks.paperqa.evaluators.registry import Digits, ElementType, Integer, Items, Violation, evaluator

MAX_ELEMENTS = 10_000
"""A longer answer list is no answer to any question: published runs cut an answer at 30,000 tokens."""


@dataclass(frozen=True, kw_only=True)
class ElementOptions(StructureRules):
    """Options of the inclusion evaluators; `ndigits` holds for elements of type float and structured."""

    gold: Items
    element_type: ElementType = "str"
    ndigits: Digits = 2

    def violations(self) -> Iterator[Violation]:
        """An order to ignore is one inside structured elements."""
        if self.ignore_order and self.element_type in ("str", "int", "float"):
            message = f"ignore_order has no effect on elements of type {self.element_type}"
            yield Violation("W9", "ignore_order", message)


@dataclass(frozen=True, kw_only=True)
class ElementIncluded(ElementOptions):
    """Options of `eval_element_included`."""

    def own_answer(self) -> object:
        """The first gold element."""
        return next(iter(self.gold), None)


@dataclass(frozen=True, kw_only=True)
class ListOverlap(ElementOptions):
    """Options of `eval_element_list_overlap`."""

    count: Integer = 1


@evaluator("eval_element_included", "set", ElementIncluded)
def element_included(answer: object, options: ElementOptions) -> bool:
    """Whether the answer, as one element, matches any gold element."""
    fits, element = _element_match(options), _prepared(answer, options)
    return any(fits(gold, element) for gold in _gold_elements(options))


@evaluator("eval_element_list_included", "set", ElementOptions)
def element_list_included(answer: object, options: ElementOptions) -> bool:
    """Whether every element of the answer list matches some gold element.

    Deviates: upstream lets an empty answer pass.
    """
    elements, gold, fits = _answer_elements(answer, options), _gold_elements(options), _element_match(options)
    return bool(elements) and all(any(fits(g, element) for g in gold) for element in elements)


@evaluator("eval_element_list_overlap", "set", ListOverlap)
def element_list_overlap(answer: object, options: ListOverlap) -> bool:
    """Whether at least `count` gold elements are matched by different elements of the answer list.

    Deviates: upstream counts spellings of one element several times.
    """
    elements, gold = _answer_elements(answer, options), _gold_elements(options)
    return largest_pairing(gold, elements, _element_match(options), enough=options.count) >= options.count


def _element_match(options: ElementOptions) -> Callable[[object, object], bool]:
    """The relation (gold element, answer element) of the options' element type."""
    if options.element_type == "str":
        return lambda gold, answer: same_or_similar_text(answer, gold, options)
    if options.element_type == "int":
        return lambda gold, answer: same_integer(answer, gold)
    if options.element_type == "float":
        return lambda gold, answer: same_number(answer, gold, options)
    return lambda gold, answer: same_structure(answer, gold, options)


def _gold_elements(options: ElementOptions) -> list[object]:
    if not isinstance(options.gold, list):
        raise BadInput(f"gold must be a list, not {type(options.gold).__name__}")
    return options.gold


def _answer_elements(answer: object, options: ElementOptions) -> list[object]:
    elements = as_list(answer)
    if len(elements) > MAX_ELEMENTS:
        raise BadInput(f"the answer lists {len(elements):,} elements; at most {MAX_ELEMENTS:,} are compared")
    return [_prepared(element, options) for element in elements]


def _prepared(element: object, options: ElementOptions) -> object:
    """The element, written out once where it is compared as text with many gold elements."""
    return as_text(element) if options.element_type == "str" else element
