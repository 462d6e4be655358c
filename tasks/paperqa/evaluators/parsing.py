"""What an answer stands for: a list, a mapping, an integer, a number, a truth value, or text.

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
"""Above this a Python literal is not read, as its syntax tree takes hundreds of times the text's memory; published runs
cut an answer at 30,000 tokens, below that."""
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
"""What `parse_text` answers for text that is neither JSON nor a Python literal (None is a value of both)."""


@lru_cache(maxsize=4)
def parse_text(text: str) -> object:
    """Read text as JSON, then as a Python literal; UNREADABLE when it is neither, or is beyond the bounds.

    The last few results are kept, as one answer is compared with many gold values: treat what is returned as frozen.

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
    """Whether text holds nothing but literals, brackets and separators, flat enough to be parsed.

    The parser of Python recurses on the C stack for chains such as `1+1+1...` or `a.b.c...` and takes the process down
    in a thread with a small stack; none of those passes here, whose tokens are read in linear time.
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
    """The list that an answer stands for.

    Args:
        value: A list is taken as it is, a tuple or set as a list, and text of a list, tuple or set is read; bare
            `1, 2` counts. Anything else is one element, the object itself. Nothing is unwrapped further.
    """
    parsed = parse_text(value) if isinstance(value, str) else value
    if isinstance(parsed, list | tuple | set | frozenset):
        return list(cast("Iterable[object]", parsed))
    return [value]


def as_mapping(value: object) -> dict[object, object] | None:
    """The mapping that an answer stands for (a dict, or text of one), None when it stands for none."""
    parsed = parse_text(value) if isinstance(value, str) else value
    return dict(cast("Mapping[object, object]", parsed)) if isinstance(parsed, dict) else None


def as_integer(value: object) -> int | None:
    """The integer that a value stands for, None when it stands for none.

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
    """The number that a value stands for, None when it stands for none.

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
    """The truth value that a value stands for, None when it stands for none.

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
    """Text of a value, outer whitespace stripped: None becomes `None`, a list its Python notation.

    Raises:
        ValueError: An integer of more digits than Python writes.
        RecursionError: A structure nested too deep to write.
    """
    return str(cast("Any", value)).strip()


def without_blanks(text: str, replacement: str = "") -> str:
    """Text with every run of whitespace (Unicode, newlines, no-break spaces) replaced."""
    return _BLANK.sub(replacement, text)
