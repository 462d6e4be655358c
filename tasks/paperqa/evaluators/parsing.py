"""Interprets an answer as a list, a mapping, an integer, a number, a truth value or text.

Nothing is executed: text is read as JSON, then as a Python literal, each within bounds of size and depth.
"""

import ast
import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, cast

MAX_JSON_CHARS = 4_000_000
MAX_LITERAL_CHARS = 200_000
"""Longest text that is parsed as a Python literal, because its syntax tree takes hundreds of times the text's memory.
Published runs cut an answer at 30,000 tokens, which is below."""
MAX_LITERAL_DEPTH = 100

_TRUE = frozenset({"true", "1", "yes", "y", "t"})
_FALSE = frozenset({"false", "0", "no", "n", "f"})
_INTEGER = re.compile(r"[+-]?[0-9]+")
_BLANK = re.compile(r"\s+")
_LITERAL_TOKEN = re.compile(
    r"""(?P<space>\s+ | \#[^\n]* | \\\n)
    | (?P<open>[\[({]) | (?P<close>[\])}]) | (?P<separator>[,:])
    | (?P<string>(?:[rR]?[bB]|[bB][rR]|[uUrR])?(?:
          '''(?:[^\\]|\\.)*?''' | \"{3}(?:[^\\]|\\.)*?\"{3}
        | '[^'\\\n]*(?:\\.[^'\\\n]*)*' | "[^"\\\n]*(?:\\.[^"\\\n]*)*"))
    | (?P<value>(?:True|False|None)\b | \.{3} | (?:[+-]\s*)?(?:0[xX][0-9a-fA-F]+ | 0[oO][0-7]+ | 0[bB][01]+
        | (?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9]+)?[jJ]?))""",
    re.VERBOSE | re.DOTALL,
)


class _Unreadable:
    """The type of UNREADABLE."""


UNREADABLE = _Unreadable()
"""Result of `parse_text` for text that is neither JSON nor a Python literal (None is a valid value of both)."""


@lru_cache(maxsize=4)
def parse_text(text: str) -> object:
    """Parses text as JSON, then as a Python literal; returns UNREADABLE if it is neither or exceeds the bounds.

    Recent results are cached, because one answer is compared with many gold values: do not modify the result.

    Deviates: the reference implementation evaluates the text as a Python expression. Here `[1 + 1]` or a call is
    unreadable, and JSON's true, false and null are read.
    """
    stripped = text.strip()
    if not stripped or len(stripped) > MAX_JSON_CHARS:
        return UNREADABLE
    try:
        return json.loads(stripped)
    except (ValueError, RecursionError):
        pass
    if len(stripped) > MAX_LITERAL_CHARS or not _looks_like_literal(stripped):
        return UNREADABLE
    try:
        return ast.literal_eval(stripped)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return UNREADABLE


def _looks_like_literal(text: str) -> bool:
    """Returns whether text consists of literals, brackets and separators only, nested flatly enough to be parsed.

    Python's parser recurses on the C stack for chains such as `1+1+1...` or `a.b.c...` and can crash the process in a
    thread with a small stack. This check reads tokens in linear time and rejects all of those.
    """
    position, depth, previous = 0, 0, ""
    while position < len(text):
        token = _LITERAL_TOKEN.match(text, position)
        if token is None:
            return False
        kind, position = str(token.lastgroup), token.end()
        if kind == "space":
            continue
        depth += (kind == "open") - (kind == "close")
        follows_value = previous in {"string", "value", "close"} and kind in {"string", "value", "open"}
        if depth > MAX_LITERAL_DEPTH or (follows_value and (previous, kind) != ("string", "string")):
            return False
        previous = kind
    return True


def as_list(value: object) -> list[object]:
    """Returns an answer as a list.

    Args:
        value: A list is returned as it is, a tuple or set as a list, and the text of a list, tuple or set is parsed;
            bare `1, 2` counts. Anything else becomes a list of one element. Nothing is unwrapped further.
    """
    parsed = parse_text(value) if isinstance(value, str) else value
    if isinstance(parsed, list | tuple | set | frozenset):
        return list(cast("Iterable[object]", parsed))
    return [value]


def as_mapping(value: object) -> dict[object, object] | None:
    """Returns an answer as a mapping (a dict, or the text of one), or None."""
    parsed = parse_text(value) if isinstance(value, str) else value
    return dict(cast("Mapping[object, object]", parsed)) if isinstance(parsed, dict) else None


def as_integer(value: object) -> int | None:
    """Returns a value as an integer, or None.

    Args:
        value: An int, a float without fraction, or text of decimal digits with an optional sign. Not a bool, not text
            such as `42.0` or `1,000`.
    """
    try:
        if isinstance(value, str):
            text = value.strip()
            return int(text) if _INTEGER.fullmatch(text) else None
        if isinstance(value, int | float) and not isinstance(value, bool):
            return int(value) if value == int(value) else None
    except (ValueError, OverflowError):
        return None
    return None


def as_number(value: object) -> float | None:
    """Returns a value as a number, or None.

    Args:
        value: An int, a float, or text that `float()` reads (ASCII, without `_`). Not a bool, no unit, no `%`.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str) and (not value.isascii() or "_" in value):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def as_truth(value: object) -> bool | None:
    """Returns a value as a truth value, or None.

    Args:
        value: A bool, a number equal to 0 or 1, or one of the words true, yes, y, t, 1 / false, no, n, f, 0 in any
            capitalisation, without outer whitespace.
    """
    if isinstance(value, str):
        word = value.lower()
        return True if word in _TRUE else False if word in _FALSE else None
    if isinstance(value, bool | int | float) and value in {0, 1}:
        return bool(value)
    return None


def as_text(value: object) -> str:
    """Returns a value as text without outer whitespace: None becomes `None`, a list its Python notation.

    Raises:
        ValueError: An integer has more digits than Python formats.
        RecursionError: A structure is nested too deeply.
    """
    return str(cast("Any", value)).strip()


def without_blanks(text: str, replacement: str = "") -> str:
    """Replaces every run of whitespace (Unicode, newlines, no-break spaces) in a text."""
    return _BLANK.sub(replacement, text)
