"""Evaluators that compare an answer with one gold value: text, truth value, integer, number, structure."""

import math
from dataclasses import dataclass
from typing import Any, cast

from tasks.paperqa.evaluators.fuzzy import reaches
from tasks.paperqa.evaluators.pairing import largest_pairing
from tasks.paperqa.evaluators.parsing import (
    as_integer,
    as_list,
    as_mapping,
    as_number,
    as_text,
    as_truth,
    without_blanks,
)
from tasks.paperqa.evaluators.registry import (
    Anything,
    Digits,
    Flag,
    FuzzMethod,
    Integer,
    Number,
    Options,
    Text,
    Threshold,
    Tolerance,
    evaluator,
)


@dataclass(frozen=True, kw_only=True)
class TextRules(Options):
    """How texts are normalised before they are compared."""

    lowercase: Flag = False
    ignore_blank: Flag = False


@dataclass(frozen=True, kw_only=True)
class FuzzyRules(TextRules):
    """How texts are compared: for equality, or by similarity if the threshold is positive."""

    fuzz_method: FuzzMethod = "ratio"
    threshold: Threshold = -1


@dataclass(frozen=True, kw_only=True)
class NumberRules(Options):
    """How numbers are compared: rounded to `ndigits` decimals, then within a relative tolerance."""

    ndigits: Digits = None
    tolerance: Tolerance = 1e-6


@dataclass(frozen=True, kw_only=True)
class StructureRules(FuzzyRules, NumberRules):
    """How lists and mappings are compared, at every level."""

    ignore_order: Flag = False


@dataclass(frozen=True, kw_only=True)
class StringExact(TextRules):
    """Options of `eval_string_exact_match`."""

    gold: Text


@dataclass(frozen=True, kw_only=True)
class StringFuzzy(FuzzyRules):
    """Options of `eval_string_fuzzy_match`."""

    gold: Text
    threshold: Threshold = 95


@dataclass(frozen=True, kw_only=True)
class BoolExact(Options):
    """Options of `eval_bool_exact_match`."""

    gold: Flag


@dataclass(frozen=True, kw_only=True)
class IntExact(Options):
    """Options of `eval_int_exact_match`."""

    gold: Integer


@dataclass(frozen=True, kw_only=True)
class FloatExact(NumberRules):
    """Options of `eval_float_exact_match`."""

    gold: Number


@dataclass(frozen=True, kw_only=True)
class StructuredExact(StructureRules):
    """Options of `eval_structured_object_exact_match`."""

    gold: Anything


@evaluator("eval_string_exact_match", "match", StringExact)
def string_exact_match(answer: object, options: StringExact) -> bool:
    """Returns whether the normalised texts are equal.

    Deviates: a gold list accepts any of its strings (and the text of the whole list, as upstream).
    """
    return any(_same_text(answer, gold, options) for gold in _alternatives(options.gold))


@evaluator("eval_string_fuzzy_match", "match", StringFuzzy)
def string_fuzzy_match(answer: object, options: StringFuzzy) -> bool:
    """Returns whether the normalised texts are similar enough; a gold list accepts any of its strings."""
    return any(_similar_text(answer, gold, options) for gold in _alternatives(options.gold))


@evaluator("eval_bool_exact_match", "match", BoolExact)
def bool_exact_match(answer: object, options: BoolExact) -> bool:
    """Returns whether the answer states the gold truth value; a gold value that is not text counts by Python's truth.

    Deviates: upstream rejects padded text and treats the gold text `false` as true.
    """
    gold = as_truth(options.gold.strip()) if isinstance(options.gold, str) else bool(options.gold)
    return gold is not None and as_truth(answer.strip() if isinstance(answer, str) else answer) == gold


@evaluator("eval_int_exact_match", "match", IntExact)
def int_exact_match(answer: object, options: IntExact) -> bool:
    """Returns whether the answer is the gold integer.

    Deviates: upstream truncates fractions, so that 42.9 would match 42.
    """
    return same_integer(answer, options.gold)


@evaluator("eval_float_exact_match", "match", FloatExact)
def float_exact_match(answer: object, options: FloatExact) -> bool:
    """Returns whether the answer is the gold number, after rounding and within the relative tolerance.

    A text gold never matches: it is an error in the data, reported as W10 and corrected by the loader.
    """
    return not isinstance(options.gold, str) and same_number(answer, options.gold, options)


@evaluator("eval_structured_object_exact_match", "match", StructuredExact)
def structured_object_exact_match(answer: object, options: StructuredExact) -> bool:
    """Returns whether the answer equals the gold structure, level by level."""
    return same_structure(answer, options.gold, options)


def same_structure(answer: object, gold: object, rules: StructureRules) -> bool:
    """Returns whether an answer equals a gold value, recursively and by the rule of the gold value's type.

    Deviates: with `ignore_order` upstream sorts both lists by raw text before it normalises them; here elements are
    paired one to one. Gold truth values follow the rule for truth values, not for integers.
    """
    if isinstance(gold, list | tuple):
        return _same_list(as_list(answer), list(cast("list[object]", gold)), rules)
    if isinstance(gold, dict):
        return _same_mapping(as_mapping(answer), cast("dict[object, object]", gold), rules)
    if isinstance(gold, bool):
        return as_truth(answer) == gold
    if isinstance(gold, int):
        return same_integer(answer, gold)
    if isinstance(gold, float):
        return same_number(answer, gold, rules)
    return same_or_similar_text(answer, gold, rules)


def _same_list(answer: list[object], gold: list[object], rules: StructureRules) -> bool:
    if len(answer) != len(gold):
        return False
    if not rules.ignore_order:
        return all(same_structure(a, g, rules) for a, g in zip(answer, gold, strict=True))
    return largest_pairing(gold, answer, lambda g, a: same_structure(a, g, rules)) == len(gold)


def _same_mapping(answer: dict[object, object] | None, gold: dict[object, object], rules: StructureRules) -> bool:
    if answer is None or len(answer) != len(gold):
        return False
    by_key = {_key(key, rules): value for key, value in answer.items()}
    return all(
        (name := _key(key, rules)) in by_key and same_structure(by_key[name], value, rules)
        for key, value in gold.items()
    )


def _key(key: object, rules: TextRules) -> str:
    return str(key).lower() if rules.lowercase else str(key)


def same_or_similar_text(answer: object, gold: object, rules: FuzzyRules) -> bool:
    """Returns whether texts are equal, or similar enough if the rules set a threshold."""
    return _similar_text(answer, gold, rules) if rules.threshold > 0 else _same_text(answer, gold, rules)


def same_integer(answer: object, gold: object) -> bool:
    """Returns whether two values represent the same integer."""
    integer = as_integer(answer)
    return integer is not None and integer == as_integer(gold)


def same_number(answer: object, gold: object, rules: NumberRules) -> bool:
    """Returns whether two values represent close numbers; nan is close to nothing, infinity to itself.

    Formula: abs(p - g) <= tolerance * max(abs(p), abs(g)), after rounding both if `ndigits` is given.
    """
    p, g = as_number(answer), as_number(gold)
    if p is None or g is None or math.isnan(p) or math.isnan(g):
        return False
    if rules.ndigits is not None:
        p, g = round(p, rules.ndigits), round(g, rules.ndigits)
    return math.isclose(p, g, rel_tol=rules.tolerance)


def _same_text(answer: object, gold: object, rules: TextRules) -> bool:
    return _normalised(answer, rules, "") == _normalised(gold, rules, "")


def _similar_text(answer: object, gold: object, rules: FuzzyRules) -> bool:
    blank = " " if str(rules.fuzz_method).startswith("token_") else ""
    p, g = _normalised(answer, rules, blank), _normalised(gold, rules, blank)
    return reaches(p, g, rules.fuzz_method, rules.threshold)


def _normalised(value: object, rules: TextRules, blank: str) -> str:
    text = as_text(value)
    if rules.ignore_blank:
        text = without_blanks(text, blank)
    return text.lower() if rules.lowercase else text


def _alternatives(gold: Any) -> list[object]:
    return [gold, *cast("list[object]", gold)] if isinstance(gold, list) else [gold]
