"""Pseudo-relevance feedback without a model: the title's best papers write the second query, in terms and embeddings.

What belongs here: the baseline `feedback`. What does not: engines, fusion of plain lists (`tasks.retrieval.fusion`).

The settings below were chosen on a third of the topics of a sample of real surveys; the rest was kept for reporting.
"""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from schemas.identifiers import CorpusId
from schemas.topic import Hit, Topic
from tasks.retrieval.desk import ResearchDesk
from tasks.retrieval.fusion import reciprocal_rank_fusion
from tasks.retrieval.retriever import Vector, WeightedTerms
from tasks.retrieval.system import Kit, Ranking, baseline

FEEDBACK = 10
"""Top papers that are taken for relevant."""

DEPTH = 500
"""Length of each list that is fused."""

TERMS = 100
"""Terms of the expanded query."""

TITLE_SHARE_TERMS, TITLE_SHARE_VECTOR = 0.2, 0.5
"""Weight of the title beside the feedback papers, in term and in embedding space."""

NEIGHBOURS, SMOOTHING = 20, 0.6
"""A candidate's score is mixed with those of its nearest candidates in embedding space, in this share."""


@baseline("feedback", "Searches the title, then with terms and embeddings of its best papers, and fuses all lists.")
def feedback(topic: Topic, kit: Kit) -> Ranking:
    """Fuses the title's lists with those of the expanded queries; uses the spaces that the desk has.

    Source:
        Terms: offer weights, Robertson, "On term selection for query expansion", 1990. Embeddings: Rocchio, 1971.
        Smoothing over neighbours: Diaz, "Regularizing ad hoc retrieval scores", CIKM 2005.
    """
    desk, title = kit.desk, topic.title.lower().strip()
    depth = max(DEPTH, kit.cutoff)
    first = [desk.search(title, depth, engine) for engine in _spaces(desk)]
    best = [doc for doc, _ in reciprocal_rank_fusion([[hit.corpus_id for hit in hits] for hits in first])][:FEEDBACK]
    if not best:
        return Ranking([], "empty", "the title finds nothing")
    lists = first + [desk.search(query, depth, engine) for engine, query in _expanded(desk, title, best)]
    candidates = np.unique([hit.corpus_id for hits in lists for hit in hits])
    scores = np.mean([_scaled(hits, candidates) for hits in lists], axis=0)
    if desk.has_vectors:
        scores = _smooth(scores, desk.vectors(candidates.tolist()))
    order = np.lexsort((candidates, -scores))[: kit.cutoff]
    return Ranking([Hit(CorpusId(int(candidates[row])), float(scores[row])) for row in order])


def _spaces(desk: ResearchDesk) -> list[str]:
    """The desk's engines that search one space each: terms, embeddings."""
    return [name for name in desk.engines if name in ("bm25", "dense")]


def _expanded(desk: ResearchDesk, title: str, best: Sequence[int]) -> list[tuple[str, WeightedTerms | Vector]]:
    """The second query of each space."""
    queries: list[tuple[str, WeightedTerms | Vector]] = []
    if desk.has_terms:
        queries.append(("bm25", _expanded_terms(desk, title, best)))
    if desk.has_vectors:
        queries.append(("dense", _expanded_vector(desk, title, best)))
    return queries


def _expanded_terms(desk: ResearchDesk, title: str, best: Sequence[int]) -> WeightedTerms:
    texts = [f"{document.title or ''} {document.abstract or ''}" for document in desk.read(best)]
    holding = Counter(term for text in texts for term in set(desk.terms(text)))
    offers = {term: _offer(desk, term, count, len(best)) for term, count in holding.items()}
    top = sorted(
        ((weight, term) for term, weight in offers.items() if weight > 0), key=lambda item: (-item[0], item[1])
    )
    asked = Counter(desk.terms(title))
    weights = {term: TITLE_SHARE_TERMS * count / asked.total() for term, count in asked.items()}
    total = sum(weight for weight, _ in top[:TERMS])
    for weight, term in top[:TERMS]:
        weights[term] = weights.get(term, 0.0) + (1 - TITLE_SHARE_TERMS) * weight / total
    return WeightedTerms(weights)


def _offer(desk: ResearchDesk, term: str, count: int, papers: int) -> float:
    """Robertson's offer weight of a term that `count` of the feedback papers hold."""
    everywhere, all_papers = desk.document_frequency(term), desk.n_documents
    inside = (count + 0.5) / (papers - count + 0.5)
    outside = (everywhere - count + 0.5) / (all_papers - everywhere - papers + count + 0.5)
    return count * math.log(inside / outside) if outside > 0 else 0.0


def _expanded_vector(desk: ResearchDesk, title: str, best: Sequence[int]) -> Vector:
    centre = desk.vectors(best).sum(axis=0)
    centre /= np.linalg.norm(centre) or 1.0
    return Vector(TITLE_SHARE_VECTOR * desk.embed([title])[0] + (1 - TITLE_SHARE_VECTOR) * centre)


def _scaled(hits: Sequence[Hit], candidates: NDArray[np.int64]) -> NDArray[np.float64]:
    """A list's scores over all candidates, `(n,)`: 1 for its best hit, 0 for its last and for what it lacks."""
    scaled = np.zeros(len(candidates))
    if hits:
        scores = np.array([hit.score for hit in hits])
        span = scores[0] - scores[-1]
        rows = np.searchsorted(candidates, [hit.corpus_id for hit in hits])
        scaled[rows] = (scores - scores[-1]) / span if span > 0 else 1.0
    return scaled


def _smooth(scores: NDArray[np.float64], vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """Mixes each candidate's score with the similarity-weighted mean of its neighbours' scores, `(n,)`."""
    similarity = np.maximum((vectors @ vectors.T).astype(np.float64), 0)
    np.fill_diagonal(similarity, 0)
    if len(similarity) > NEIGHBOURS:
        least = np.partition(similarity, -NEIGHBOURS, axis=1)[:, -NEIGHBOURS, None]
        similarity[similarity < least] = 0
    weights = similarity / np.maximum(similarity.sum(axis=1, keepdims=True), 1e-12)
    return (1 - SMOOTHING) * scores + SMOOTHING * (weights @ scores)
