"""Combined: every index, expanded by terms and vectors, fused by score; acronyms, groups, smoothing if asked for."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from schemas.identifiers import CorpusId
from schemas.settings import Settings
from schemas.topic import Hit, Topic
from tasks.ranking.agents.queries import hits_by_rank, subject_query, title_query
from tasks.ranking.baseline import Kit, Ranking, baseline
from tasks.ranking.expansion.acronyms import other_forms
from tasks.ranking.expansion.feedback import group_hits
from tasks.retrieval.desk import ResearchDesk
from tasks.retrieval.fusion import reciprocal_rank_fusion
from tasks.retrieval.retriever import Vector, WeightedTerms


class CombinedSettings(Settings):
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


SETTINGS = CombinedSettings()


class _List(NamedTuple):
    weight: float
    hits: list[Hit]


@baseline(
    "combined",
    "Expands the subject in every index by terms and vectors, and fuses by score.",
    extends="feedback",
)
def combined(topic: Topic, kit: Kit) -> Ranking:
    """Does what `feedback` does over all indexes of the desk, for a query that leaves out survey words.

    1. The subject is searched. With `acronyms`, those that several of the first hits define are added to it (Schwartz
       and Hearst); on real topics that lost more than it gained, so it is off.
    2. Reciprocal rank fusion of all indexes gives the seeds. Their best terms expand the query for BM25 (offer weights,
       RM3's mixture); in each space of vectors the query moves to their centroid (Rocchio).
    3. All lists are fused by their scores, each scaled to 0..1. With `smoothing`, each paper takes part of its score
       from the papers next to it, in the mean of all spaces.

    Smoothing and acronyms were switched off by nested cross-validation over 40 real topics (`docs/explanation`).

    Source: as `feedback`; every part can be weighed or switched off by `CombinedSettings`.
    """
    return rank_combined(topic, kit, SETTINGS)


def rank_combined(topic: Topic, kit: Kit, settings: CombinedSettings) -> Ranking:
    """Ranks as `combined` does, with other settings."""
    desk, depth = kit.desk, max(settings.depth, kit.cutoff)
    query = subject_query(topic.title) if settings.subject else title_query(topic.title)
    first = [desk.search(query, depth, engine) for engine in desk.spaces]
    if settings.acronyms and (forms := _forms(desk, topic.title, first)):
        query = " ".join([query, *forms])
        first = [desk.search(query, depth, engine) for engine in desk.spaces]
    seeds = _fused(first)[: settings.seeds]
    if not seeds:
        return Ranking([], note="the title finds nothing")
    lists = [_List(settings.first_lists, hits) for hits in first]
    moved = {engine: _moved(desk, query, seeds, engine, settings) for engine in desk.spaces}
    lists += [_List(1.0, desk.search(each, depth, engine)) for engine, each in moved.items()]
    if settings.groups:
        lists += _group_lists(desk, query, _fused(first)[:50], depth, settings)
    ids, scores = _add_scores(lists)
    if settings.smoothing and desk.has_vectors:
        scores = _smooth(desk, ids, scores, settings)
    best = np.lexsort((ids, -scores))[: kit.cutoff]
    return Ranking([Hit(CorpusId(int(ids[i])), float(scores[i])) for i in best])


def _fused(lists: Sequence[Sequence[Hit]]) -> list[CorpusId]:
    return [paper for paper, _ in reciprocal_rank_fusion([[hit.corpus_id for hit in hits] for hits in lists])]


def _texts(desk: ResearchDesk, ids: Sequence[int]) -> list[str]:
    return [f"{document.title or ''} {document.abstract or ''}" for document in desk.read(ids)]


def _forms(desk: ResearchDesk, title: str, lists: Sequence[Sequence[Hit]]) -> list[str]:
    """Returns the other forms of the title's acronyms and phrases, from the first hits of all lists."""
    return other_forms(title, _texts(desk, _fused(lists)[:200]))


def _moved(
    desk: ResearchDesk, query: str, seeds: Sequence[int], engine: str, settings: CombinedSettings
) -> WeightedTerms | Vector:
    """Returns the query moved to the seeds, in the form that the engine searches with."""
    if engine in desk.vector_engines:
        centroid = desk.vectors(seeds, engine).mean(axis=0)
        own = settings.own_vector * desk.embed([query], engine)[0]
        return Vector((own + (1 - settings.own_vector) * centroid / np.linalg.norm(centroid)).astype(np.float32))
    holders = Counter(term for text in _texts(desk, seeds) for term in set(desk.terms(text)))
    offers = {term: n * _rarity(desk, term) for term, n in holders.items() if desk.document_frequency(term)}
    best = sorted(offers.items(), key=lambda offer: (-offer[1], offer[0]))[: settings.terms]
    weights: dict[str, float] = {}
    own_terms = list(Counter(desk.terms(query)).items())
    for share, counts in ((settings.own_terms, own_terms), (1 - settings.own_terms, best)):
        total = sum(count for _, count in counts)
        for term, count in counts:
            weights[term] = weights.get(term, 0.0) + share * count / total
    return WeightedTerms({term: weight for term, weight in weights.items() if weight > 0})


def _rarity(desk: ResearchDesk, term: str) -> float:
    """Returns BM25's inverse document frequency of a term."""
    frequency = desk.document_frequency(term)
    return math.log(1 + (desk.n_documents - frequency + 0.5) / (frequency + 0.5))


def _group_lists(
    desk: ResearchDesk, query: str, first: Sequence[CorpusId], depth: int, settings: CombinedSettings
) -> list[_List]:
    """Returns the lists of searches moved to each group of first hits; their weights sum to that of the groups."""
    groups = [[hit.corpus_id for hit in group] for group in group_hits(desk, hits_by_rank(first, len(first)))]
    weight = settings.groups / max(1, len(groups))
    return [
        _List(weight, desk.search(_moved(desk, query, group, engine, settings), depth, engine))
        for engine in desk.spaces
        for group in groups
    ]


def _add_scores(lists: Sequence[_List]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Returns all papers, ascending, with the weighted sum of their scores, each list scaled to 0..1."""
    ids = np.unique([hit.corpus_id for _, hits in lists for hit in hits]).astype(np.int64)
    scores = np.zeros(len(ids))
    for weight, hits in lists:
        if hits:
            given = np.array([hit.score for hit in hits])
            spread = given.max() - given.min()
            scaled = (given - given.min()) / spread if spread else np.ones(len(given))
            scores[np.searchsorted(ids, [hit.corpus_id for hit in hits])] += weight * scaled
    return ids, scores


def _smooth(
    desk: ResearchDesk, ids: NDArray[np.int64], scores: NDArray[np.float64], settings: CombinedSettings
) -> NDArray[np.float64]:
    """Returns scores mixed with the mean of each paper's nearest neighbours, weighted by the mean cosine similarity."""
    if len(ids) < 2:
        return scores
    spaces = [desk.vectors(ids.tolist(), engine) for engine in desk.vector_engines]
    similarity = np.maximum(sum(vectors @ vectors.T for vectors in spaces) / len(spaces), 0).astype(np.float64)
    np.fill_diagonal(similarity, 0)
    nearest = min(settings.neighbours, len(ids) - 1)
    farthest = np.partition(similarity, -nearest, axis=1)[:, -nearest, None]
    similarity[similarity < farthest] = 0
    total = similarity.sum(axis=1)
    around = similarity @ scores / np.where(total > 0, total, 1)
    return (1 - settings.smoothing) * scores + settings.smoothing * around
