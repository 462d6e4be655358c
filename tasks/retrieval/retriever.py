"""What a retriever is, and the filter that keeps leakage out of every search."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from schemas.errors import BadInput
from schemas.topic import Hit, Topic

NEVER = np.iinfo(np.int32).max
"""Day of a document without a known date: before no horizon."""


@dataclass(frozen=True)
class WeightedTerms:
    """A query in term space: weight by index term (already analysed), weights > 0."""

    weights: Mapping[str, float]


@dataclass(frozen=True)
class Vector:
    """A query in embedding space: `(dim,) float32`, any norm > 0."""

    values: NDArray[np.float32]


Query = str | WeightedTerms | Vector


@dataclass(frozen=True)
class Catalogue:
    """What the filter must know of every document.

    Attributes:
        ids: `(n_docs,) int64`, ascending corpus_ids.
        days: `(n_docs,) int32`, publication day as days since 1970-01-01; `NEVER` when not known.
        surveys: `(n_docs,) bool`, accepted by the survey selector.
    """

    ids: NDArray[np.int64]
    days: NDArray[np.int32]
    surveys: NDArray[np.bool_]

    def rows(self, ids: NDArray[np.int64]) -> NDArray[np.intp]:
        """Positions of `ids`.

        Raises:
            BadInput: An id is not in the catalogue.
        """
        rows = np.searchsorted(self.ids, ids)
        known = rows < len(self.ids)
        known[known] = self.ids[rows[known]] == ids[known]
        if not known.all():
            raise BadInput(f"document {ids[~known][0]}: not in the corpus of {len(self.ids)} documents")
        return rows


class Verdicts(NamedTuple):
    """Per document, which rule removes it (the first that holds, in this order); kept: none does. All `(n,) bool`."""

    kept: NDArray[np.bool_]
    itself: NDArray[np.bool_]
    survey: NDArray[np.bool_]
    late: NDArray[np.bool_]


@dataclass(frozen=True)
class Allowed:
    """The documents that a topic may see: no surveys, published strictly before the horizon, not the topic itself.

    Attributes:
        catalogue: What is known of every document.
        topic_id: The topic.
        horizon: The day before which a document must be published.
        only: `(n_docs,) bool`: documents where it is False are as if they were not in the corpus; None: all are.

    Source: section 5 of the ResearchArena paper.
    """

    catalogue: Catalogue
    topic_id: int
    horizon: date
    only: NDArray[np.bool_] | None = None

    @classmethod
    def of(cls, catalogue: Catalogue, topic: Topic, only: Collection[int] | None = None) -> "Allowed":
        """The rule for one topic; with `only`, just these documents can be found."""
        mask = None if only is None else np.isin(catalogue.ids, np.fromiter(only, np.int64))
        return cls(catalogue, topic.topic_id, topic.horizon, mask)

    def judge(self, rows: NDArray[np.intp]) -> Verdicts:
        """Applies the rule to catalogue positions `(n,)`."""
        there = np.ones(len(rows), np.bool_) if self.only is None else self.only[rows]
        itself = (self.catalogue.ids[rows] == self.topic_id) & there
        survey = self.catalogue.surveys[rows] & ~itself & there
        late = (self.catalogue.days[rows] >= (self.horizon - date(1970, 1, 1)).days) & ~itself & ~survey & there
        return Verdicts(there & ~(itself | survey | late), itself, survey, late)


class Trace(NamedTuple):
    """How a search was answered: rounds of widening, ranking depth looked at, hits removed by each rule."""

    rounds: int = 1
    depth: int = 0
    dropped_survey: int = 0
    dropped_date: int = 0
    dropped_self: int = 0


class Found(NamedTuple):
    """Hits in final order (score descending, ties by ascending corpus_id) and how they were found."""

    hits: list[Hit]
    trace: Trace


class Retriever(Protocol):
    """Ranks documents for a query; its complete ranking is one fixed total order for each query."""

    @property
    def name(self) -> str:
        """Short name, for example `bm25`."""
        ...

    def search(self, query: Query, k: int, allowed: Allowed | None = None) -> Found:
        """The first `k` documents of the complete ranking that `allowed` lets pass (all documents when None).

        Fewer than `k` only when the ranking is exhausted. A query without a usable term or an empty text finds nothing.

        Raises:
            BadInput: The engine cannot take this kind of query, or `k` < 1.
        """
        ...
