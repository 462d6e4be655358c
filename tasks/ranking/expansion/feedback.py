"""Pseudo-relevance feedback in its published forms: RM3 over terms, Rocchio over embeddings, groups of first hits."""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.cluster.hierarchy import fcluster, linkage

from schemas.settings import Settings
from schemas.topic import Hit
from tasks.retrieval.desk import ResearchDesk
from tasks.retrieval.retriever import Vector, WeightedTerms

GROUPS = 5
"""The most groups that first hits form."""


class ExpansionSettings(Settings):
    """How a query is expanded; the defaults are those of the literature."""

    documents: int = Field(default=10, ge=1, description="First hits that are taken for relevant.")
    terms: int = Field(default=10, ge=1, description="Terms that RM3 adds.")
    original: float = Field(default=0.5, ge=0, le=1, description="Weight of the query's own terms in RM3.")
    most_common: float = Field(default=0.1, gt=0, le=1, description="RM3 adds no term that more documents have.")
    centroid: float = Field(default=0.75, ge=0, description="Weight of the hits' centroid in Rocchio; the query has 1.")


PUBLISHED = ExpansionSettings()
WIDE = ExpansionSettings(documents=20, terms=40, original=0.4)


def expand_query(
    desk: ResearchDesk, query: str, hits: Sequence[Hit], settings: ExpansionSettings, engine: str
) -> WeightedTerms | Vector:
    """Returns the query expanded by what its first hits say, in the form that the engine searches with."""
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
        counts = Counter(desk.terms(document.text))
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


def group_hits(desk: ResearchDesk, hits: Sequence[Hit]) -> list[list[Hit]]:
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
    texts = [Counter(desk.terms(document.text)) for document in desk.read(ids)]
    columns = {term: place for place, term in enumerate(sorted({term for text in texts for term in text}))}
    rows = np.zeros((len(ids), max(1, len(columns))))
    for row, counts in zip(rows, texts, strict=True):
        for term, count in counts.items():
            row[columns[term]] = count * math.log(desk.n_documents / max(1, desk.document_frequency(term)))
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
