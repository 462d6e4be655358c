"""Parses the search queries that models write, and formats documents for models to read."""

import re
from collections.abc import Sequence

from schemas.errors import BadInput
from schemas.identifiers import CorpusId
from schemas.topic import Hit
from tasks.llm.asker import Asker
from tasks.ranking.agents.reading import Parsed, ask_and_parse
from tasks.retrieval.documents import Document

PASSAGE_WORDS = 150
"""Words of a passage: title and the beginning of the abstract."""

_FENCE = re.compile(r"^```[\w+-]*[ \t]*$", re.MULTILINE)
_LABEL = re.compile(r"^(?:(?:the|search|final|suggested)\s+)*query\s*:\s*", re.IGNORECASE)
_MARKERS = re.compile(r"^(?:[-*•\s]+|\d+[.):]?(?=\s))*")
_KIND = r"(?:surveys?|reviews?|overviews?|tutorials?|taxonom(?:y|ies)|roadmaps?|primers?|introductions?)"
_PRAISE = (
    r"(?:comprehensive|systematic|brief|short|extensive|comparative|critical|thorough|complete|broad|recent|structured|"
    r"contemporary|unified|technical|literature|practical|gentle|state[- ]of[- ]the[- ]art)"
)
_SURVEY_WORDS = re.compile(
    rf"\b(?:(?:an?|the|our|and)\s+)*(?:{_PRAISE}[\s,]+(?:and\s+)?)*{_KIND}\b(?:\s+(?:papers?|articles?))?"
    r"(?:\s+(?:of|on|about|for|in|to)\b)?(?:\s+the\b)?"
    r"|\b(?:recent\s+)?(?:advances|progress|trends)\s+(?:of|on|in)\b|\bstate[- ]of[- ]the[- ]art\b"
    r"|\b(?:open\s+)?(?:challenges|problems|issues|opportunities|perspectives)(?:,?\s+and\s+|,\s*)"
    r"(?:(?:future|open|research)\s+)*(?:directions|challenges|opportunities|perspectives|trends|problems|issues)\b",
    re.IGNORECASE,
)
_QUOTES = "\"'`“”„‘’«»"


def zero_shot_query(asker: Asker, title: str) -> Parsed[str]:
    """Asks the model for one query for a survey's title.

    Source:
        ResearchArena (arXiv 2406.10291), baseline Zero-Shot.
    """
    return ask_and_parse(asker, "zero_shot", {"title": title}, _one_query)


def _one_query(text: str) -> str:
    if query := clean_query(text):
        return query
    raise BadInput("there is no query in the answer")


def title_query(title: str) -> str:
    """Returns the title as the baseline Title sends it: the query where a model gave none."""
    return title.lower().strip()


def subject_query(title: str) -> str:
    """Returns the title, lower-case, without the words that say that it is a survey; the title where none is left."""
    left = re.sub(r"\s*[:;,?.-]+\s*(?=[:;,?.-]|$)|^\W+", " ", _SURVEY_WORDS.sub(" ", title.lower()))
    return " ".join(left.split()) if re.search(r"\w\w", left) else title_query(title)


def clean_query(text: str) -> str:
    """Returns a model's answer as one line, without code fences, surrounding quotation marks and a label."""
    return _bare(_FENCE.sub("", text), _LABEL)


def listed_queries(lines: Sequence[str], most: int) -> list[str]:
    """Returns the queries of a list with one query a line: without list markers, quotation marks and duplicates.

    Deviates: A number is a list marker only where it stands alone (`3 gulls`, `3. gulls`), so `3D maps` is kept whole.
    """
    queries = (_bare(line, _MARKERS) for line in lines)
    return list(dict.fromkeys(query for query in queries if query))[:most]


def _bare(text: str, begin: re.Pattern[str]) -> str:
    """Joins the lines and removes what `begin` matches and surrounding quotation marks until none are left."""
    line = " ".join(text.split())
    while (bare := begin.sub("", line.strip(_QUOTES + " "))) != line:
        line = bare
    return line


def passage(document: Document) -> str:
    """Returns the first `PASSAGE_WORDS` words of a document's title and abstract."""
    return first_words(f"{document.title or ''}\n{document.abstract or ''}", PASSAGE_WORDS)


def first_words(text: str, number: int) -> str:
    """Returns the first `number` words of a text, with its line breaks."""
    kept: list[str] = []
    for line in text.strip().splitlines():
        words = line.split()[:number]
        number -= len(words)
        kept.append(" ".join(words))
        if number <= 0:
            break
    return "\n".join(kept)


def hits_by_rank(ids: Sequence[int], cutoff: int) -> list[Hit]:
    """Returns the first `cutoff` documents in the given order, with the negated rank as score."""
    return [Hit(CorpusId(corpus_id), -float(rank)) for rank, corpus_id in enumerate(ids[:cutoff], 1)]
