"""Query expansion in its published forms, without a model: RM3 over BM25, Rocchio over embeddings, and their fusion."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.cluster.hierarchy import fcluster, linkage

from schemas.settings import Settings
from schemas.topic import Hit, Topic
from tasks.ranking.agents.queries import hits_by_rank, subject_query, title_query
from tasks.ranking.baseline import Kit, Ranking, baseline
from tasks.retrieval.desk import ResearchDesk
from tasks.retrieval.fusion import reciprocal_rank_fusion
from tasks.retrieval.retriever import Vector, WeightedTerms

FUSED_DEPTH = 500
"""Length of the lists that are fused."""

SEEDS, GROUPS = 50, 5
"""First hits that are grouped, and the most groups that they form."""


class ExpansionSettings(Settings):
    """How a query is expanded; the defaults are those of the literature."""

    documents: int = Field(default=10, ge=1, description="First hits that are taken for relevant.")
    terms: int = Field(default=10, ge=1, description="Terms that RM3 adds.")
    original: float = Field(default=0.5, ge=0, le=1, description="Weight of the query's own terms in RM3.")
    most_common: float = Field(default=0.1, gt=0, le=1, description="RM3 adds no term that more documents have.")
    centroid: float = Field(default=0.75, ge=0, description="Weight of the hits' centroid in Rocchio; the query has 1.")


PUBLISHED = ExpansionSettings()
WIDE = ExpansionSettings(documents=20, terms=40, original=0.4)


@baseline("expanded", "Expands the title by RM3 (BM25) and Rocchio (embeddings) as published, and fuses both.")
def expanded(topic: Topic, kit: Kit) -> Ranking:
    """Searches the title, expands it by what the first hits say, and searches again.

    With BM25 this is RM3: the query's terms are mixed with those of the relevance model of its first hits. With
    embeddings it is Rocchio: the query's vector is moved to the centroid of its first hits. With both, the two lists
    are fused by rank.

    Source:
        RM3: Lavrenko and Croft, SIGIR 2001 (relevance model); Abdul-Jaleel et al., TREC 2004 (mixture). 10 documents,
        10 terms, weight 0.5 and the limit on common terms are Anserini's. Rocchio, The SMART Retrieval System, 1971,
        chapter 14: weights 1 and 0.75, without irrelevant documents. Fusion: Cormack et al., SIGIR 2009.
    """
    return _search_expanded(title_query(topic.title), kit, PUBLISHED)


@baseline("expanded_wide", "As expanded, with 20 documents, 40 terms and less weight on the title.")
def expanded_wide(topic: Topic, kit: Kit) -> Ranking:
    """As `expanded` with settings for long lists of relevant papers: a survey cites many more than a query wants."""
    return _search_expanded(title_query(topic.title), kit, WIDE)


@baseline("expanded_subject", "As expanded_wide, for the title without words such as 'a comprehensive survey of'.")
def expanded_subject(topic: Topic, kit: Kit) -> Ranking:
    """As `expanded_wide`; the title's survey words are left out of the first query and of its expansion."""
    return _search_expanded(subject_query(topic.title), kit, WIDE)


@baseline("expanded_diverse", "Groups the title's first hits, expands the title by each group, and fuses.")
def expanded_diverse(topic: Topic, kit: Kit) -> Ranking:
    """Searches once for each group of first hits, so that no single part of a broad subject takes all places.

    The subject's first `SEEDS` hits are grouped by Ward's method over their weighted terms. Each group expands the
    subject as in `expanded_wide`; the lists of all groups and that of the subject itself are fused by rank. It is
    Decomposer's idea without a model: groups of papers stand for sub-questions.

    Source: Ward, 1963; fusion as in `expanded`.
    """
    desk, query = kit.desk, subject_query(topic.title)
    depth = max(kit.cutoff, FUSED_DEPTH)
    lists: list[list[Hit]] = []
    for engine in desk.spaces:
        found = desk.search(query, depth, engine)
        lists.append(found)
        expanded_queries = [_expand(desk, query, group, WIDE, engine) for group in _groups(desk, found[:SEEDS])]
        lists += [desk.search(each, depth, engine) for each in expanded_queries]
    fused = reciprocal_rank_fusion([[hit.corpus_id for hit in hits] for hits in lists])
    return Ranking(hits_by_rank([corpus_id for corpus_id, _ in fused], kit.cutoff))


def _groups(desk: ResearchDesk, hits: Sequence[Hit]) -> list[list[Hit]]:
    """Returns the hits in at most `GROUPS` groups of alike papers, that of the best hit first."""
    if len(hits) < 2:
        return [list(hits)] if hits else []
    labels = fcluster(linkage(_seed_vectors(desk, hits), "ward"), GROUPS, "maxclust")
    by_label: dict[int, list[Hit]] = {}
    for hit, label in zip(hits, labels.tolist(), strict=True):
        by_label.setdefault(label, []).append(hit)
    return list(by_label.values())


def _seed_vectors(desk: ResearchDesk, hits: Sequence[Hit]) -> NDArray[np.float64]:
    """Returns unit vectors of the hits, `(n, dim)`: their embeddings, or TF-IDF over their terms without embeddings."""
    ids = [hit.corpus_id for hit in hits]
    if desk.has_vectors:
        return desk.vectors(ids).astype(np.float64)
    texts = {d.corpus_id: Counter(desk.terms(f"{d.title or ''} {d.abstract or ''}")) for d in desk.read(ids)}
    columns = {term: place for place, term in enumerate(sorted({term for text in texts.values() for term in text}))}
    rows = np.zeros((len(ids), max(1, len(columns))))
    for row, corpus_id in zip(rows, ids, strict=True):
        for term, count in texts[corpus_id].items():
            row[columns[term]] = count * math.log(desk.n_documents / max(1, desk.document_frequency(term)))
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def _search_expanded(query: str, kit: Kit, settings: ExpansionSettings) -> Ranking:
    desk = kit.desk
    depth = max(kit.cutoff, FUSED_DEPTH) if len(desk.spaces) > 1 else kit.cutoff
    lists = list(_lists(desk, query, depth, settings))
    if len(lists) == 1:
        return Ranking(lists[0])
    fused = reciprocal_rank_fusion([[hit.corpus_id for hit in hits] for hits in lists])
    return Ranking(hits_by_rank([corpus_id for corpus_id, _ in fused], kit.cutoff))


def _lists(desk: ResearchDesk, query: str, depth: int, settings: ExpansionSettings) -> Iterator[list[Hit]]:
    for engine in desk.spaces:
        first = desk.search(query, settings.documents, engine)
        yield desk.search(_expand(desk, query, first, settings, engine), depth, engine) if first else []


def _expand(
    desk: ResearchDesk, query: str, hits: Sequence[Hit], settings: ExpansionSettings, engine: str
) -> WeightedTerms | Vector:
    if engine == "bm25":
        return rm3_terms(desk, query, hits, settings)
    return rocchio_vector(desk, query, hits, settings, engine)


def rm3_terms(desk: ResearchDesk, query: str, hits: Sequence[Hit], settings: ExpansionSettings) -> WeightedTerms:
    """Returns the query's terms mixed with the likeliest terms of its first hits; the weights sum to 1.

    A document's share in the relevance model is its retrieval score over the sum of all. Terms of one character, of
    more than 20, and very common ones are left out, as in Anserini.
    """
    scores = {hit.corpus_id: hit.score for hit in hits}
    total = sum(scores.values())
    model: dict[str, float] = {}
    for document in desk.read(list(scores)):
        counts = Counter(desk.terms(f"{document.title or ''} {document.abstract or ''}"))
        share = scores[document.corpus_id] / total / max(1, counts.total())
        for term, count in counts.items():
            model[term] = model.get(term, 0.0) + share * count
    likely = sorted(((-weight, term) for term, weight in model.items() if _tells(desk, term, settings)))
    mixed: dict[str, float] = {}
    added = [(term, -weight) for weight, term in likely[: settings.terms]]
    for share, weights in ((settings.original, Counter(desk.terms(query)).items()), (1 - settings.original, added)):
        norm = math.fsum(weight for _, weight in weights)
        for term, weight in weights:
            mixed[term] = mixed.get(term, 0.0) + share * weight / norm
    return WeightedTerms({term: weight for term, weight in mixed.items() if weight > 0})


def _tells(desk: ResearchDesk, term: str, settings: ExpansionSettings) -> bool:
    return 1 < len(term) <= 20 and 0 < desk.document_frequency(term) <= settings.most_common * desk.n_documents


def rocchio_vector(
    desk: ResearchDesk, query: str, hits: Sequence[Hit], settings: ExpansionSettings, engine: str | None = None
) -> Vector:
    """Returns the query's vector plus the weighted centroid of its first hits, of length 1, in an engine's space."""
    centroid = desk.vectors([hit.corpus_id for hit in hits], engine).mean(axis=0)
    moved = desk.embed([query], engine)[0] + settings.centroid * centroid
    return Vector((moved / np.linalg.norm(moved)).astype(np.float32))
