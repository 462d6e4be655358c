"""Search queries as models write them, and documents as models read them."""

import re
from collections.abc import Sequence

from schemas.errors import BadInput
from schemas.identifiers import CorpusId
from schemas.topic import Hit
from tasks.llm.asker import Asker
from tasks.ranking.agents.reading import Read, ask_for
from tasks.retrieval.documents import Document

PASSAGE_WORDS = 150
"""Words of a passage: title and the beginning of the abstract."""

_FENCE = re.compile(r"^```[\w+-]*[ \t]*$", re.MULTILINE)
_LABEL = re.compile(r"^(?:(?:the|search|final|suggested)\s+)*query\s*:\s*", re.IGNORECASE)
_MARKERS = re.compile(r"^(?:[-*•\s]+|\d+[.):]?(?=\s))*")
_QUOTES = "\"'`“”„‘’«»"


def zero_shot_query(asker: Asker, title: str) -> Read[str]:
    """One query for a survey's title.

    Source:
        ResearchArena (arXiv 2406.10291), baseline Zero-Shot.
    """
    return ask_for(asker, "zero_shot", {"title": title}, _one_query)


def _one_query(text: str) -> str:
    if query := clean_query(text):
        return query
    raise BadInput("there is no query in the answer")


def title_query(title: str) -> str:
    """The title as the baseline Title sends it: what is searched where a model gave no query."""
    return title.lower().strip()


def clean_query(text: str) -> str:
    """A model's answer as one query: without code fences, quotation marks around it and a label, lines joined."""
    return _bare(_FENCE.sub("", text), _LABEL)


def listed_queries(lines: Sequence[str], most: int) -> list[str]:
    """Queries of a list, a line each: markers and quotation marks removed, no empty ones, each once, in order.

    Deviates: a number loses its place only where it stands alone (`3 gulls`, `3. gulls`), so `3D maps` is kept whole.
    """
    queries = (_bare(line, _MARKERS) for line in lines)
    return list(dict.fromkeys(query for query in queries if query))[:most]


def _bare(text: str, begin: re.Pattern[str]) -> str:
    """One line without what `begin` matches and quotation marks around it, as often as there are any."""
    line = " ".join(text.split())
    while (bare := begin.sub("", line.strip(_QUOTES + " "))) != line:
        line = bare
    return line


def passage(document: Document) -> str:
    """Title and abstract of a document, the first `PASSAGE_WORDS` words."""
    return first_words(f"{document.title or ''}\n{document.abstract or ''}", PASSAGE_WORDS)


def first_words(text: str, number: int) -> str:
    """The first words of a text, lines kept apart."""
    kept: list[str] = []
    for line in text.strip().splitlines():
        words = line.split()[:number]
        number -= len(words)
        kept.append(" ".join(words))
        if number <= 0:
            break
    return "\n".join(kept)


def by_place(ids: Sequence[int], cutoff: int) -> list[Hit]:
    """Documents in this order, with the negated rank as score."""
    return [Hit(CorpusId(corpus_id), -float(rank)) for rank, corpus_id in enumerate(ids[:cutoff], 1)]
