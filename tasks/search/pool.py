"""Pools the engines' results: finds results that are the same paper, and keeps one text of each paper for judging."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from schemas.search import plain_title
from tasks.search.judge import Paper
from tasks.store.dataset import Dataset

TELLING_WORDS = 4
"""Words that a title needs to identify a paper; shorter titles ("Introduction") need an equal abstract too."""

SAME_ABSTRACT = 0.5
"""Smallest Jaccard similarity of two abstracts that are versions of each other."""


class Result(NamedTuple):
    """One result in an engine's list."""

    engine: str
    rank: int
    doc_key: str
    title: str
    abstract: str


class Pooled(NamedTuple):
    """A paper that engines returned for a query, with the text of the first engine that returned it."""

    query_key: str
    doc_key: str
    paper: Paper


class Place(NamedTuple):
    """Rank of a paper among the distinct papers of an engine's list, from 1."""

    query_key: str
    engine: str
    rank: int
    doc_key: str


class Pool(NamedTuple):
    """All papers to judge, and the engines' lists in terms of these papers."""

    papers: list[Pooled]
    places: list[Place]
    repeated: int


def build_pool(results: Mapping[str, Dataset], depth: int) -> Pool:
    """Pools the engines' results query by query.

    Args:
        results: Datasets of stage `search_results` by engine, in the order in which their texts are preferred.
        depth: Number of results used from each list.
    """
    by_query: dict[str, list[Result]] = {}
    columns = ["query_key", "rank", "doc_key", "title", "abstract"]
    for engine, dataset in results.items():
        for row in dataset.table(columns=columns).to_pylist():
            if row["rank"] <= depth:
                found = Result(engine, row["rank"], row["doc_key"], row["title"], row["abstract"] or "")
                by_query.setdefault(row["query_key"], []).append(found)
    pool = Pool([], [], 0)
    repeated = 0
    for query_key, found in by_query.items():
        names = same_papers(found)
        first: dict[str, Result] = {}
        for result, name in zip(found, names, strict=True):
            first.setdefault(name, result)
        pool.papers.extend(Pooled(query_key, name, Paper(r.title, r.abstract)) for name, r in first.items())
        places = list(_places(query_key, found, names))
        pool.places.extend(places)
        repeated += len(found) - len(places)
    return pool._replace(repeated=repeated)


def same_papers(results: Sequence[Result]) -> list[str]:
    """Returns, for each result of a query, the key of its paper: the key of the first result that is the same paper.

    Two results are the same paper if they have the same key, or the same title and (if both have one) similar
    abstracts. A title of few words needs equal abstracts.
    """
    names: dict[str, str] = {}
    by_title: dict[str, list[Result]] = {}
    for result in results:
        title = plain_title(result.title)
        alike = next((other for other in by_title.get(title, ()) if _same_text(title, result, other)), None)
        known = names.get(result.doc_key)
        if known is None:
            names[result.doc_key] = names[alike.doc_key] if alike else result.doc_key
        elif alike and names[alike.doc_key] != known:  # this result shows that two papers found so far are one
            joined = names[alike.doc_key]
            earlier = next(name for name in names.values() if name in (known, joined))
            names = {key: earlier if name in (known, joined) else name for key, name in names.items()}
        if title:
            by_title.setdefault(title, []).append(result)
    return [names[result.doc_key] for result in results]


def _same_text(title: str, first: Result, second: Result) -> bool:
    a, b = (set(plain_title(result.abstract).split()) for result in (first, second))
    if len(title.split()) < TELLING_WORDS:
        return bool(a) and a == b
    return not a or not b or len(a & b) >= SAME_ABSTRACT * len(a | b)


def _places(query_key: str, results: Iterable[Result], names: Iterable[str]) -> Iterable[Place]:
    lists: dict[str, dict[str, None]] = {}
    for result, name in sorted(zip(results, names, strict=True), key=lambda pair: pair[0].rank):
        lists.setdefault(result.engine, {})[name] = None
    for engine, papers in sorted(lists.items()):
        for rank, name in enumerate(papers, 1):
            yield Place(query_key, engine, rank, name)
