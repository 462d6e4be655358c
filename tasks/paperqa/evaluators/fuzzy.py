"""Similarity of two texts on a scale of 0 to 100."""

import math
import re
from functools import lru_cache

from rapidfuzz import fuzz
from rapidfuzz.distance import Indel

from schemas.errors import BadInput

FUZZ_METHODS = ("ratio", "partial_ratio", "token_sort_ratio", "token_set_ratio")

_LATIN_1_SUPPLEMENT = re.compile("[\u0080-\u00ff]")
_NOT_WORD = re.compile(r"\W")


def reaches(answer: str, gold: str, method: str, threshold: float) -> bool:
    """Returns whether the similarity of two texts, rounded to an integer, reaches the threshold.

    The threshold is passed to the string kernels, so that texts whose lengths already decide cost nothing.

    Args:
        answer: Any text.
        gold: Any text.
        method: One of FUZZ_METHODS; the two `token_*` ignore case and punctuation.
        threshold: 0 to 100; a value in (0, 1] is a fraction of 100.

    Raises:
        BadInput: Unknown method.

    Source: fuzzywuzzy's four ratios (indel similarity; scores rounded half to even).
    Deviates: fuzzywuzzy would treat 0.9 as 0.9 of 100, and with difflib it misses some windows of `partial_ratio`.
    """
    floor = threshold_on_100(threshold)
    if method == "ratio":
        return _ratio_reaches(answer, gold, floor)
    if method == "partial_ratio":
        return _partial_ratio_reaches(answer, gold, floor)
    if method == "token_sort_ratio":
        return _ratio_reaches(" ".join(_tokens(answer)), " ".join(_tokens(gold)), floor)
    if method == "token_set_ratio":
        return _token_set_ratio_reaches(set(_tokens(answer)), set(_tokens(gold)), floor)
    raise BadInput(f"fuzz_method {method!r} is unknown: use one of {', '.join(FUZZ_METHODS)}")


def threshold_on_100(threshold: float) -> float:
    """Converts a threshold to the scale of 0 to 100; a value in (0, 1] is a fraction."""
    return round(threshold * 100, 6) if 0 < threshold <= 1 else threshold


def _ratio_reaches(a: str, b: str, floor: float) -> bool:
    if a == b or not a or not b:
        return (100 if a == b else 0) >= floor
    total = len(a) + len(b)
    cutoff = min(total, max(0, math.floor(total * (100.5 - floor) / 100)))
    distance = Indel.distance(a, b, score_cutoff=cutoff)
    return round(100 * (total - distance) / total) >= floor


def _partial_ratio_reaches(a: str, b: str, floor: float) -> bool:
    if a == b or not a or not b:
        return (100 if a == b else 0) >= floor
    score = fuzz.partial_ratio(a, b, score_cutoff=max(0.0, floor - 1))
    return round(round(score, 6)) >= floor


@lru_cache(maxsize=4)
def _tokens(text: str) -> tuple[str, ...]:
    """Returns the sorted words of a text; cached, because one answer is compared with many gold texts."""
    return tuple(sorted(_NOT_WORD.sub(" ", _LATIN_1_SUPPLEMENT.sub("", text)).lower().split()))


def _token_set_ratio_reaches(a: set[str], b: set[str], floor: float) -> bool:
    if not a or not b:
        return floor <= 0
    shared = " ".join(sorted(a & b))
    with_a = f"{shared} {' '.join(sorted(a - b))}".strip()
    with_b = f"{shared} {' '.join(sorted(b - a))}".strip()
    return any(_ratio_reaches(x, y, floor) for x, y in ((shared, with_a), (shared, with_b), (with_a, with_b)))
