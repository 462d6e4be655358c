"""The pool of a search benchmark: which of the engines' results are the same paper, and what of it is judged."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from schemas.search import plain_title
from tasks.search.judge import Paper
from tasks.store.dataset import Dataset

TELLING_WORDS = 4
"""Words from which on a title names a paper; shorter ones ("Introduction") do so together with the abstract alone."""

SAME_ABSTRACT = 0.5
"""Share of common words among all words of two abstracts from which on they are versions of one."""


class Result(NamedTuple):
    """A place in an engine's list."""

    engine: str
    rank: int
    doc_key: str
    title: str
    abstract: str


class Pooled(NamedTuple):
    """A paper that engines returned for a query, with the text of the first engine that did."""

    query_key: str
    doc_key: str
    paper: Paper


class Place(NamedTuple):
    """Where a paper stands among the different papers of an engine's list, from 1."""

    query_key: str
    engine: str
    rank: int
    doc_key: str


class Pool(NamedTuple):
    """All papers to judge, and the engines' lists in terms of them."""

    papers: list[Pooled]
    places: list[Place]
    repeated: int


def build_pool(results: Mapping[str, Dataset], depth: int) -> Pool:
    """Pools the engines' results query by query.

    Args:
        results: Datasets of stage `search_results` by engine, in the order in which their texts are preferred.
        depth: Places of each list that count.
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
    """For each result of a query the key of its paper: that of the first result that is the same.

    Two results are the same paper when they have the same key, or the same title and, where both have abstracts,
    versions of one abstract. A title of few words needs equal abstracts.
    """
    names: dict[str, str] = {}
    by_title: dict[str, list[Result]] = {}
    for result in results:
        title = plain_title(result.title)
        alike = next((other for other in by_title.get(title, ()) if _same_text(title, result, other)), None)
        known = names.get(result.doc_key)
        if known is None:
            names[result.doc_key] = names[alike.doc_key] if alike else result.doc_key
        elif alike and names[alike.doc_key] != known:  # this result shows that two papers so far are one
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
