"""Arithmetic for agents: expressions are parsed and computed, never executed as code."""

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from schemas.errors import BadInput

MOST_CHARACTERS = 500
MOST_BITS = 4096
"""Largest integer, in bits; a power is bounded before it is computed."""

Number = int | float

_BINARY: Mapping[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_UNARY: Mapping[type[ast.unaryop], Callable[[Number], Number]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "abs": abs,
    "ceil": math.ceil,
    "exp": math.exp,
    "floor": math.floor,
    "log": math.log,
    "log10": math.log10,
    "log2": math.log2,
    "max": max,
    "min": min,
    "round": round,
    "sqrt": math.sqrt,
}


def calculate(expression: str) -> Number:
    """Returns the value of an arithmetic expression: `+ - * / // % **`, parentheses and a few functions.

    Raises:
        BadInput: The text is not such an expression, is too long, or has no finite value.
    """
    if len(expression) > MOST_CHARACTERS:
        raise BadInput(f"{len(expression)} characters: an expression may have {MOST_CHARACTERS}")
    try:
        value = _bounded(_value(ast.parse(expression.strip(), mode="eval").body))
    except (SyntaxError, ValueError, TypeError, ArithmeticError, RecursionError, MemoryError) as error:
        raise error if isinstance(error, BadInput) else BadInput(f"cannot be computed: {error}") from error
    if isinstance(value, float) and not math.isfinite(value):
        raise BadInput(f"the value is {value}")
    return value


def _value(node: ast.expr) -> Number:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return _bounded(value)
        case ast.BinOp(left, ast.Pow(), right):
            return _power(_value(left), _value(right))
        case ast.BinOp(left, sign, right) if type(sign) in _BINARY:
            return _bounded(_BINARY[type(sign)](_value(left), _value(right)))
        case ast.UnaryOp(sign, operand) if type(sign) in _UNARY:
            return _UNARY[type(sign)](_value(operand))
        case ast.Call(ast.Name(name), arguments, []) if name in _FUNCTIONS:
            return _bounded(_FUNCTIONS[name](*map(_value, arguments)))
        case _:
            raise BadInput(f"{ast.unparse(node)[:60]!r}: only numbers, + - * / // % ** and {', '.join(_FUNCTIONS)}")


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, int) and isinstance(exponent, int) and abs(exponent) * max(base.bit_length(), 1) > MOST_BITS:
        raise BadInput(f"the power is larger than {MOST_BITS} bits")
    value = base**exponent
    if isinstance(value, complex):
        raise BadInput("the power is not a real number")
    return _bounded(value)


def _bounded(value: Number) -> Number:
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise BadInput(f"a number is larger than {MOST_BITS} bits")
    return value
