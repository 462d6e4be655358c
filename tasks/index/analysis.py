"""Splits text into index terms, in the same way for documents and queries."""

from collections.abc import Mapping
from functools import cache

import tantivy

from schemas.settings import Stemming

NAMES: Mapping[Stemming, str] = {"none": "words", "english": "words_en"}
"""Names under which the analyzers are registered with an index."""

MAX_TERM_BYTES = 255
"""Longer terms, in bytes of UTF-8, are dropped: they are residue (encoded images, lost spaces), not words."""


@cache
def analyzer(stemming: Stemming = "none") -> tantivy.TextAnalyzer:
    """Returns the analyzer: lower-cased runs of letters and digits, without stop words, stemmed if asked for.

    Source:
        Elasticsearch's standard analyzer, which the ResearchArena code uses (Unicode words, lower-case, no stemming).
        English stems are those of Snowball, the successor of Porter's algorithm (1980).

    Deviates:
        Every character that is not a letter or digit separates terms (`don't` and `3.5` are two terms each), and
        ideographs are not split one by one.
    """
    words = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    words = words.filter(tantivy.Filter.lowercase()).filter(tantivy.Filter.remove_long(MAX_TERM_BYTES + 1))
    return words.build() if stemming == "none" else words.filter(tantivy.Filter.stemmer(stemming)).build()


def analyze(text: str, stemming: Stemming = "none") -> list[str]:
    """Returns the terms of a text in order, with repetitions; half a surrogate pair separates like punctuation."""
    return analyzer(stemming).analyze(text.encode(errors="replace").decode())
