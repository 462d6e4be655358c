"""The retriever interface, and the leakage filter that every search applies."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from schemas.errors import BadInput
from schemas.topic import Hit, Topic

NEVER = np.iinfo(np.int32).max
"""Day of a document without a known date; it is before no horizon."""


@dataclass(frozen=True)
class WeightedTerms:
    """A query as index terms (already analysed) with weights > 0."""

    weights: Mapping[str, float]


@dataclass(frozen=True)
class Vector:
    """A query as an embedding: `(dim,) float32`, any norm > 0."""

    values: NDArray[np.float32]


Query = str | WeightedTerms | Vector


@dataclass(frozen=True)
class Catalogue:
    """Facts about every document that the leakage filter needs.

    Attributes:
        ids: `(n_docs,) int64`, ascending corpus_ids.
        days: `(n_docs,) int32`, publication day as days since 1970-01-01; `NEVER` when unknown.
        surveys: `(n_docs,) bool`, whether the survey selector accepted it.
    """

    ids: NDArray[np.int64]
    days: NDArray[np.int32]
    surveys: NDArray[np.bool_]

    def rows(self, ids: NDArray[np.int64]) -> NDArray[np.intp]:
        """Returns the positions of `ids` in the catalogue.

        Raises:
            BadInput: An id is not in the catalogue.
        """
        known = self.holds(ids)
        if not known.all():
            raise BadInput(f"document {ids[~known][0]} is not in the corpus of {len(self.ids)} documents")
        return np.searchsorted(self.ids, ids)

    def holds(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Returns which of `ids` are in the catalogue."""
        rows = np.searchsorted(self.ids, ids)
        known = rows < len(self.ids)
        known[known] = self.ids[rows[known]] == ids[known]
        return known

    def take(self, rows: NDArray[np.intp]) -> "Catalogue":
        """Returns the facts of some positions, in their order, which need not ascend."""
        return Catalogue(self.ids[rows], self.days[rows], self.surveys[rows])


class Verdicts(NamedTuple):
    """Which documents pass the filter (`kept`), and which rule removes each of the others: the first that applies.

    All are `(n,) bool`; the rules apply in the order of the fields.
    """

    kept: NDArray[np.bool_]
    itself: NDArray[np.bool_]
    survey: NDArray[np.bool_]
    late: NDArray[np.bool_]


@dataclass(frozen=True)
class Allowed:
    """The leakage filter of one topic: it removes the topic's survey, other surveys, and documents from the horizon on.

    Attributes:
        catalogue: Facts about every document.
        topic_id: The topic.
        horizon: The day before which a document must be published.
        only: `(n_docs,) bool`; documents that are False here are treated as if they were not in the corpus; None: all
            documents are in the corpus.

    Source: section 5 of the ResearchArena paper.
    """

    catalogue: Catalogue
    topic_id: int
    horizon: date
    only: NDArray[np.bool_] | None = None

    @classmethod
    def of(cls, catalogue: Catalogue, topic: Topic, only: Collection[int] | None = None) -> "Allowed":
        """Returns the filter of a topic; with `only`, searches can find these documents and no others."""
        mask = None if only is None else np.isin(catalogue.ids, np.fromiter(only, np.int64))
        return cls(catalogue, topic.topic_id, topic.horizon, mask)

    def visible(self, ids: Sequence[int]) -> NDArray[np.bool_]:
        """Returns for each document, `(n,) bool`, whether the topic may see it; one that does not exist it may not.

        Args:
            ids: Any integers.
        """
        limits = np.iinfo(np.int64)
        asked = np.array([i if limits.min <= i <= limits.max else limits.min for i in ids], np.int64)
        seen = self.catalogue.holds(asked)
        seen[seen] = self.judge(self.catalogue.rows(asked[seen])).kept
        return seen

    def judge(self, rows: NDArray[np.intp], facts: Catalogue | None = None) -> Verdicts:
        """Applies the filter to catalogue positions `(n,)`.

        Args:
            rows: The positions.
            facts: `catalogue.take(rows)`, where it is at hand.
        """
        facts = facts or self.catalogue.take(rows)
        itself, late = facts.ids == self.topic_id, facts.days >= (self.horizon - date(1970, 1, 1)).days
        survey, late = facts.surveys & ~itself, late & ~(facts.surveys | itself)
        if self.only is None:
            return Verdicts(~(itself | survey | late), itself, survey, late)
        there = self.only[rows]
        return Verdicts(there & ~(itself | survey | late), itself & there, survey & there, late & there)


class Trace(NamedTuple):
    """How a search was answered: rounds of back-off, depth of the last ranking, and hits removed by each rule."""

    rounds: int = 1
    depth: int = 0
    dropped_survey: int = 0
    dropped_date: int = 0
    dropped_self: int = 0


class Found(NamedTuple):
    """Hits in final order (score descending, ties by ascending corpus_id), and the trace of the search."""

    hits: list[Hit]
    trace: Trace


class Retriever(Protocol):
    """Ranks documents for a query; for each query the complete ranking is one fixed total order."""

    @property
    def name(self) -> str:
        """Short name, for example `bm25`."""
        ...

    def search(self, query: Query, k: int, allowed: Allowed | None = None) -> Found:
        """Returns the first `k` documents of the complete ranking that pass `allowed` (None lets all pass).

        There are fewer than `k` only when the ranking is exhausted. An empty text, or a query without a usable term,
        finds nothing.

        Raises:
            BadInput: The engine does not accept this kind of query, or `k` < 1.
        """
        ...
