"""Expands a query by terms and vectors of its first hits, and fuses all lists by score: the core of two baselines."""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from schemas.identifiers import CorpusId
from schemas.settings import Settings
from schemas.topic import Hit, Topic
from tasks.ranking.agents.queries import hits_by_rank, subject_query, title_query
from tasks.ranking.baseline import Kit, Ranking
from tasks.ranking.expansion.acronyms import other_forms
from tasks.ranking.expansion.feedback import group_hits
from tasks.retrieval.desk import ResearchDesk
from tasks.retrieval.fusion import WeightedList, normalized_score_fusion, reciprocal_rank_fusion
from tasks.retrieval.retriever import Vector, WeightedTerms

GROUPED_HITS, ACRONYM_HITS = 50, 200
"""First hits that are grouped, and that may define an acronym."""


class CombinationSettings(Settings):
    """Which parts work together, and what each counts; a weight of 0 switches a part off."""

    subject: bool = Field(default=True, description="Leave words out of the title that say that it is a survey.")
    acronyms: bool = Field(default=False, description="Add what the first hits define for the title's acronyms.")
    seeds: int = Field(default=20, ge=1, description="First papers of the fused lists that count as relevant.")
    terms: int = Field(default=100, ge=1, description="Terms that the expanded query takes from the seeds.")
    own_terms: float = Field(default=0.2, ge=0, le=1, description="Share of the query's own terms.")
    own_vector: float = Field(default=0.5, ge=0, le=1, description="Share of the query in the moved vector.")
    first_lists: float = Field(default=0.5, ge=0, description="Weight of the query's lists; expanded ones have 1.")
    groups: float = Field(default=0.0, ge=0, description="Weight of the lists of each group of first hits, together.")
    smoothing: float = Field(default=0.0, ge=0, le=1, description="Share of its neighbours in a paper's score.")
    neighbours: int = Field(default=20, ge=1, description="Papers most like a paper, whose scores are averaged.")
    depth: int = Field(default=500, ge=1, description="Length of the lists that are fused.")


def rank_by_combination(topic: Topic, kit: Kit, settings: CombinationSettings) -> Ranking:
    """Searches a title in every index of the desk, expands it by what is found, and fuses all lists.

    1. The title is searched. Reciprocal rank fusion of all indexes gives the seeds.
    2. Terms that many seeds share and few documents hold join the query for BM25; in each space of vectors the query
       moves to the seeds' centroid.
    3. All lists are fused by their scores, each scaled to 0..1. With `smoothing`, each paper takes part of its score
       from the papers next to it, in the mean of all spaces: relevant papers lie close to each other.

    An index that the desk does not have is left out; without embeddings, nothing is smoothed.

    Source:
        Offer weights (Robertson, On term selection for query expansion, 1990), RM3's mixture (Abdul-Jaleel et al.,
        TREC 2004), Rocchio's vector (1971), score regularization (Diaz, CIKM 2005).
    """
    desk, depth = kit.desk, max(settings.depth, kit.cutoff)
    query = subject_query(topic.title) if settings.subject else title_query(topic.title)
    first = [desk.search(query, depth, engine) for engine in desk.spaces]
    if settings.acronyms and (forms := _other_forms(desk, topic.title, _fused(first)[:ACRONYM_HITS])):
        query = " ".join([query, *forms])
        first = [desk.search(query, depth, engine) for engine in desk.spaces]
    fused = _fused(first)
    seeds = fused[: settings.seeds]
    if not seeds:
        return Ranking([], note="the title finds nothing")
    lists = [WeightedList(settings.first_lists, hits) for hits in first]
    moved = {engine: _moved(desk, query, seeds, engine, settings) for engine in desk.spaces}
    lists += [WeightedList(1.0, desk.search(each, depth, engine)) for engine, each in moved.items()]
    if settings.groups:
        lists += _group_lists(desk, query, fused[:GROUPED_HITS], depth, settings)
    ids, scores = normalized_score_fusion(lists)
    if settings.smoothing and desk.has_vectors:
        spaces = [desk.vectors(ids.tolist(), engine) for engine in desk.vector_engines]
        similarity = np.maximum(sum(vectors @ vectors.T for vectors in spaces) / len(spaces), 0)
        scores = smooth_scores(scores, similarity, settings.neighbours, settings.smoothing)
    best = np.lexsort((ids, -scores))[: kit.cutoff]
    return Ranking([Hit(CorpusId(int(ids[i])), float(scores[i])) for i in best])


def smooth_scores(
    scores: NDArray[np.float64], similarity: NDArray[np.float32], neighbours: int, share: float
) -> NDArray[np.float64]:
    """Returns scores `(n,)` mixed with the mean score of each document's neighbours, weighted by similarity.

    Args:
        scores: Of n documents.
        similarity: Of each to each, `(n, n)`, at least 0; the diagonal is not looked at, and the array is overwritten.
        neighbours: Documents most like a document, whose scores are averaged.
        share: Of the neighbours in a document's score, 0..1.
    """
    if len(scores) < 2:
        return scores
    np.fill_diagonal(similarity, 0)
    nearest = min(neighbours, len(scores) - 1)
    farthest = np.partition(similarity, -nearest, axis=1)[:, -nearest, None]
    similarity *= similarity >= farthest
    total = similarity.sum(axis=1)
    around = similarity @ scores.astype(np.float32) / np.where(total > 0, total, 1)
    return (1 - share) * scores + share * around


def _fused(lists: Sequence[Sequence[Hit]]) -> list[CorpusId]:
    return [paper for paper, _ in reciprocal_rank_fusion([[hit.corpus_id for hit in hits] for hits in lists])]


def _other_forms(desk: ResearchDesk, title: str, ids: Sequence[int]) -> list[str]:
    return other_forms(title, [document.text for document in desk.read(ids)])


def _moved(
    desk: ResearchDesk, query: str, seeds: Sequence[int], engine: str, settings: CombinationSettings
) -> WeightedTerms | Vector:
    """Returns the query moved to the seeds, in the form that the engine searches with."""
    if engine in desk.vector_engines:
        centroid = desk.vectors(seeds, engine).mean(axis=0)
        own = settings.own_vector * desk.embed([query], engine)[0]
        return Vector((own + (1 - settings.own_vector) * centroid / np.linalg.norm(centroid)).astype(np.float32))
    holders = Counter(term for document in desk.read(seeds) for term in set(desk.terms(document.text)))
    frequencies = {term: desk.document_frequency(term) for term in holders}
    offers = {term: n * _rarity(desk, frequencies[term]) for term, n in holders.items() if frequencies[term]}
    best = sorted(offers.items(), key=lambda offer: (-offer[1], offer[0]))[: settings.terms]
    weights: dict[str, float] = {}
    own_terms = list(Counter(desk.terms(query)).items())
    for share, counts in ((settings.own_terms, own_terms), (1 - settings.own_terms, best)):
        total = sum(count for _, count in counts)
        for term, count in counts:
            weights[term] = weights.get(term, 0.0) + share * count / total
    return WeightedTerms({term: weight for term, weight in weights.items() if weight > 0})


def _rarity(desk: ResearchDesk, frequency: int) -> float:
    """Returns BM25's inverse document frequency of a term that so many documents contain."""
    return math.log(1 + (desk.n_documents - frequency + 0.5) / (frequency + 0.5))


def _group_lists(
    desk: ResearchDesk, query: str, first: Sequence[CorpusId], depth: int, settings: CombinationSettings
) -> list[WeightedList]:
    """Returns the lists of searches moved to each group of first hits; their weights sum to that of the groups."""
    groups = [[hit.corpus_id for hit in group] for group in group_hits(desk, hits_by_rank(first, len(first)))]
    weight = settings.groups / max(1, len(groups))
    return [
        WeightedList(weight, desk.search(_moved(desk, query, group, engine, settings), depth, engine))
        for engine in desk.spaces
        for group in groups
    ]
