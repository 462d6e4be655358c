"""Names of systems that people say, made from the names of runs."""

import re
from collections.abc import Collection

WORDS = {
    "abstract": "abstract",
    "bm25": "BM25",
    "classic_rag": "Classic RAG",
    "clustering_collapse": "Clustering, collapsed",
    "dense": "dense",
    "few_shot": "Few-shot",
    "full_text": "full text",
    "hybrid": "hybrid",
    "iterative_rag": "Iterative RAG",
    "openalex": "OpenAlex",
    "oracle": "the survey's references",
    "self_rag": "Self-RAG",
    "self_rag_early": "Self-RAG, early stop",
    "semantic_scholar": "Semantic Scholar",
    "single": "One node",
    "sql_agent": "SQL agent",
    "storm": "STORM",
    "title": "title",
    "title_abstract": "title and abstract",
    "zero_shot": "Zero-shot",
}
"""Parts of a run's name that are not said as they are written."""

BETWEEN = " · "

_PART_OF_TOPICS = re.compile(r"-(first|sample)(\d+)(?:s(\d+))?")


def spoken_name(tag: str, hidden: Collection[str] = ()) -> str:
    """Returns the name that people say: `Title · BM25 · abstract` for `title.bm25.abstract`.

    Args:
        tag: Name of a run, a built tree, an engine or a system that answers questions.
        hidden: Marks (what follows `+`) that are left out, because they are shown apart.
    """
    part_of_topics = [_subset(found) for found in _PART_OF_TOPICS.finditer(tag)]
    head, *marks = _PART_OF_TOPICS.sub("", tag).split("+")
    system, _, depth = head.partition("@")
    first, *others = [_say(part) for part in system.split(".")]
    depth_said = [f"top {depth}"] if depth else []
    shown = [mark for mark in marks if mark not in hidden]
    return BETWEEN.join([first[:1].upper() + first[1:], *others, *depth_said, *shown, *part_of_topics])


def _say(part: str) -> str:
    return WORDS.get(part, part.replace("_", " "))


def _subset(found: re.Match[str]) -> str:
    kind, number, seed = found.groups()
    return f"first {number}" if kind == "first" else f"sample of {number}" + (f", seed {seed}" if seed else "")
