"""How text becomes index terms, for documents and queries alike."""

from functools import cache

import tantivy

NAME = "words"
"""Name under which an index knows the analyzer."""

LONGEST = 255
"""Longer terms are dropped, in bytes of UTF-8: they are residue (encoded images, broken spaces), not words."""


@cache
def analyzer() -> tantivy.TextAnalyzer:
    """Runs of letters and digits, lower-cased: no stemming, no stop words.

    Source:
        Elasticsearch's standard analyzer, with which the ResearchArena code indexes (Unicode words, lower-case).

    Deviates:
        Every character that is no letter or digit separates (`don't` and `3.5` are two terms each), and ideographs
        are not split one by one.
    """
    words = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    return words.filter(tantivy.Filter.lowercase()).filter(tantivy.Filter.remove_long(LONGEST + 1)).build()


def analyze(text: str) -> list[str]:
    """The terms of a text in order, repeated ones too; half a surrogate pair separates like punctuation."""
    return analyzer().analyze(text.encode(errors="replace").decode())
