"""Splits text into index terms, in the same way for documents and queries."""

from functools import cache

import tantivy

NAME = "words"
"""Name under which the analyzer is registered with an index."""

MAX_TERM_BYTES = 255
"""Longer terms, in bytes of UTF-8, are dropped: they are residue (encoded images, lost spaces), not words."""


@cache
def analyzer() -> tantivy.TextAnalyzer:
    """Returns the analyzer: lower-cased runs of letters and digits, without stemming and stop words.

    Source:
        Elasticsearch's standard analyzer, which the ResearchArena code uses (Unicode words, lower-case).

    Deviates:
        Every character that is not a letter or digit separates terms (`don't` and `3.5` are two terms each), and
        ideographs are not split one by one.
    """
    words = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    return words.filter(tantivy.Filter.lowercase()).filter(tantivy.Filter.remove_long(MAX_TERM_BYTES + 1)).build()


def analyze(text: str) -> list[str]:
    """Returns the terms of a text in order, with repetitions; half a surrogate pair separates like punctuation."""
    return analyzer().analyze(text.encode(errors="replace").decode())
