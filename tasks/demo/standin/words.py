"""Finds the words that carry a text's subject, for the rules."""

import re
from collections import Counter
from collections.abc import Iterable

_EMPTY = (
    "a an and are as at by for from how in into is its of on or over that the their this to towards using via we what "
    "which with new review reviews survey surveys overview tutorial literature state art recent advances comprehensive "
    "systematic introduction perspective approaches challenges trends future directions taxonomy between through our "
    "can has have been be not these such than more most also it they were was while both paper study results show "
    "used use based"
)
EMPTY = frozenset(_EMPTY.split())
"""Words without meaning for a subject, including those that announce a survey."""

_WORD = re.compile(r"[^\W_]+(?:[-'][^\W_]+)*")


def subject_words(text: str) -> list[str]:
    """Returns the text's distinct lower-case words in order, without stop words and single characters."""
    words = (word.lower() for word in _WORD.findall(text))
    return list(dict.fromkeys(word for word in words if len(word) > 1 and word not in EMPTY))


def frequent_words(texts: Iterable[str], number: int) -> list[str]:
    """Returns the words that occur in the most texts, best first; ties in alphabetical order."""
    holders = Counter(word for text in texts for word in subject_words(text))
    return sorted(holders, key=lambda word: (-holders[word], word))[:number]
