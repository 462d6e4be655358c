"""The research desk: a system under test can reach documents only through its topic's desk."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import date
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from schemas.errors import BadInput
from schemas.identifiers import CorpusId
from schemas.tables.runs import StepRow
from schemas.topic import Hit, Topic
from tasks.corpus.edges import Direction
from tasks.retrieval.backoff import require_depth, trace_of
from tasks.retrieval.documents import Document, DocumentReader
from tasks.retrieval.graph import CitationGraph
from tasks.retrieval.retriever import Allowed, Query, Retriever, Vector, WeightedTerms
from tasks.retrieval.trajectory import Trajectory

PAGE = 100
"""Neighbours of a paper that are returned when no number is given."""


class Search(NamedTuple):
    """A row of the file `searches`: one query or lookup, and how many papers the leakage filter removed."""

    topic_id: int
    position: int
    query: str
    retriever: str
    k: int
    returned: int
    rounds: int
    depth: int
    dropped_survey: int
    dropped_date: int
    dropped_self: int


class Neighbours(NamedTuple):
    """Papers that a paper cites, or that cite it: a page of them by ascending corpus_id, and the number of all."""

    papers: list[CorpusId]
    total: int


@runtime_checkable
class TermSpace(Protocol):
    """An engine over terms also gives statistics of the whole index."""

    @property
    def n_documents(self) -> int:
        """Number of indexed documents."""
        ...

    def terms(self, text: str) -> list[str]:
        """Returns the index terms of a text in order, with repetitions."""
        ...

    def document_frequency(self, term: str) -> int:
        """Returns the number of documents that contain an index term."""
        ...


@runtime_checkable
class VectorSpace(Protocol):
    """An engine over embeddings also gives vectors of texts and documents."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encodes texts as queries and returns unit vectors, `(n, dim) float32`."""
        ...

    def vectors(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """Returns unit vectors of documents, `(n, dim) float32`, in the order of `ids`."""
        ...


class ResearchDesk:
    """Search, reading and index statistics for one topic; surveys, later papers and the topic itself are never visible.

    Args:
        topic: The topic.
        engines: Retrievers by the names that `search` accepts.
        primary: The engine used when none is named.
        allowed: The topic's leakage filter.
        documents: Reads titles and abstracts.
        graph: Who cites whom; None: `references` and `citations` cannot be used.

    Raises:
        BadInput: `primary` is not among the engines, or `allowed` is the filter of another topic.
    """

    def __init__(
        self,
        topic: Topic,
        engines: Mapping[str, Retriever],
        primary: str,
        allowed: Allowed,
        documents: DocumentReader,
        graph: CitationGraph | None = None,
    ) -> None:
        if primary not in engines:
            raise BadInput(f"desk: no engine is named {primary!r}; there are: {', '.join(sorted(engines))}")
        if (allowed.topic_id, allowed.horizon) != (topic.topic_id, topic.horizon):
            raise BadInput(
                f"desk of topic {topic.topic_id} (horizon {topic.horizon}): the leakage filter is that of "
                f"topic {allowed.topic_id} (horizon {allowed.horizon})"
            )
        self.topic = topic
        self._searches: list[Search] = []
        self._trajectory = Trajectory(topic.topic_id)
        self._engines = dict(engines)
        self._term_spaces = {name: engine for name, engine in engines.items() if isinstance(engine, TermSpace)}
        self._vector_spaces = {name: engine for name, engine in engines.items() if isinstance(engine, VectorSpace)}
        self._primary = primary
        self.allowed = allowed
        self._documents = documents
        self._graph = graph

    @property
    def searches(self) -> tuple[Search, ...]:
        """All queries so far, in order."""
        return tuple(self._searches)

    @property
    def steps(self) -> tuple[StepRow, ...]:
        """The first searches, lookups and readings, in order, each with the first papers that came back."""
        return tuple(self._trajectory.steps)

    @property
    def engines(self) -> tuple[str, ...]:
        """Names that `search` accepts, sorted."""
        return tuple(sorted(self._engines))

    @property
    def primary(self) -> str:
        """The engine used when none is named."""
        return self._primary

    def search(self, query: Query, k: int, engine: str | None = None) -> list[Hit]:
        """Returns the best `k` documents that the topic may see, or fewer when the engine has no more.

        Args:
            query: Text, weighted index terms or a vector, depending on the engine.
            k: Number of documents, >= 1.
            engine: One of `engines`; None: the primary engine.

        Raises:
            BadInput: The engine is unknown or does not accept the query, `k` < 1, or the engine returned a document
                that the topic may not see.
        """
        name = engine or self._primary
        if name not in self._engines:
            raise BadInput(f"desk: no engine is named {name!r}; there are: {', '.join(self.engines)}")
        hits, trace = self._engines[name].search(query, k, self.allowed)
        found = [hit.corpus_id for hit in hits]
        self.require_allowed(found)
        self._trajectory.add(found, len(self._searches))
        row = Search(self.topic.topic_id, len(self._searches), describe_query(query), name, k, len(hits), *trace)
        self._searches.append(row)
        return hits

    def read(self, ids: Sequence[int]) -> list[Document]:
        """Returns titles and abstracts in the order of `ids`.

        Raises:
            BadInput: The topic may not see one of the documents, or it does not exist.
        """
        self.require_allowed(ids)
        self._trajectory.add(ids)
        return self._documents.read(ids)

    def ages(self, ids: Sequence[int]) -> NDArray[np.int64]:
        """Returns how many days before the topic's horizon documents were published, `(n,)`, each >= 1.

        Raises:
            BadInput: The topic may not see one of the documents, or it does not exist.
        """
        self.require_allowed(ids)
        catalogue = self.allowed.catalogue
        days = catalogue.days[catalogue.rows(np.asarray(ids, np.int64))].astype(np.int64)
        return (self.allowed.horizon - date(1970, 1, 1)).days - days

    @property
    def has_graph(self) -> bool:
        """Whether `references` and `citations` can be used."""
        return self._graph is not None

    def references(self, corpus_id: int, k: int = PAGE, offset: int = 0) -> Neighbours:
        """Returns documents that a document cites, as far as the topic may see both.

        A system that expands along citations first searches, then looks up the references and citations of what it
        found, and ranks the papers by how often they turn up. It is registered with `@baseline(..., graph=True)`, and
        its desk then has the edges. A lookup takes some microseconds, so following hundreds of papers costs little. One
        page with a large `k` returns all neighbours of a paper.

        Args:
            corpus_id: A document that the topic may see.
            k: Number of papers, >= 1.
            offset: Papers to leave out at the beginning, >= 0.

        Returns:
            Papers `offset` to `offset + k` by ascending corpus_id, and how many there are. Both leave out what the
            topic may not see, so they are those of the day before its horizon.

        Raises:
            BadInput: The topic may not see the document or it does not exist, `k` or `offset` is out of range, or the
                desk has no edges.
        """
        return self._look_up(corpus_id, "references", k, offset)

    def citations(self, corpus_id: int, k: int = PAGE, offset: int = 0) -> Neighbours:
        """Returns documents that cite a document, as far as the topic may see both; otherwise as `references`."""
        return self._look_up(corpus_id, "citations", k, offset)

    def _look_up(self, corpus_id: int, direction: Direction, k: int, offset: int) -> Neighbours:
        require_depth(k)
        if offset < 0:
            raise BadInput(f"{direction} of document {corpus_id}: the offset is {offset}; it must be at least 0")
        if self._graph is None:
            raise BadInput(
                f"desk: the citation graph is not open, which {direction} needs; register the system with graph=True"
            )
        self.require_allowed([corpus_id])
        catalogue = self.allowed.catalogue
        (row,) = catalogue.rows(np.array([corpus_id], np.int64))
        rows = self._graph.neighbours(int(row), direction)
        verdicts = self.allowed.judge(rows)
        kept = catalogue.ids[rows[verdicts.kept]]
        page = kept[offset : offset + k].tolist()
        asked = f"{corpus_id} from {offset}" if offset else str(corpus_id)
        trace = trace_of(verdicts, 1, len(rows))
        self._trajectory.add(page, len(self._searches))
        self._searches.append(Search(self.topic.topic_id, len(self._searches), asked, direction, k, len(page), *trace))
        return Neighbours([CorpusId(found) for found in page], len(kept))

    @property
    def has_terms(self) -> bool:
        """Whether an engine works on terms: `terms`, `document_frequency`, `n_documents`, weighted queries."""
        return bool(self._term_spaces)

    @property
    def has_vectors(self) -> bool:
        """Whether an engine works on embeddings: `vectors`, `embed`, vector queries."""
        return bool(self._vector_spaces)

    @property
    def vector_engines(self) -> tuple[str, ...]:
        """Names of the engines that work on embeddings, sorted."""
        return tuple(sorted(self._vector_spaces))

    @property
    def spaces(self) -> tuple[str, ...]:
        """Names of the engines that search one index each: that over terms first, then those over embeddings."""
        return (*sorted(self._term_spaces), *self.vector_engines)

    def vectors(self, ids: Sequence[int], engine: str | None = None) -> NDArray[np.float32]:
        """Returns unit vectors of documents, `(n, dim) float32`, in the order of `ids`.

        Args:
            ids: Documents that the topic may see.
            engine: One of `vector_engines`; None: the first of them.

        Raises:
            BadInput: The engine does not work on embeddings, or the topic may not see a document, or it has no
                embedding.
        """
        self.require_allowed(ids)
        return self._vector_space(engine).vectors(ids)

    def embed(self, texts: Sequence[str], engine: str | None = None) -> NDArray[np.float32]:
        """Encodes texts as an engine encodes queries and returns unit vectors, `(n, dim) float32`.

        Args:
            texts: Queries.
            engine: One of `vector_engines`; None: the first of them.

        Raises:
            BadInput: The engine does not work on embeddings.
        """
        return self._vector_space(engine).embed(texts)

    def terms(self, text: str) -> list[str]:
        """Returns the index terms of a text in order, with repetitions.

        Raises:
            BadInput: No engine works on terms.
        """
        return self._term_space().terms(text)

    def document_frequency(self, term: str) -> int:
        """Returns the number of documents in the whole index that contain the index term, as the scores use it.

        Raises:
            BadInput: No engine works on terms.
        """
        return self._term_space().document_frequency(term)

    @property
    def n_documents(self) -> int:
        """Number of documents in the term index: the N that goes with `document_frequency`.

        Raises:
            BadInput: No engine works on terms.
        """
        return self._term_space().n_documents

    def _term_space(self) -> TermSpace:
        if not self._term_spaces:
            raise BadInput(f"desk: none of the engines {', '.join(self.engines)} works on terms; add bm25")
        return next(iter(self._term_spaces.values()))

    def _vector_space(self, name: str | None) -> VectorSpace:
        if not self._vector_spaces:
            raise BadInput(f"desk: none of the engines {', '.join(self.engines)} works on embeddings; add dense or lsa")
        engine = self.vector_engines[0] if name is None else name
        if engine not in self._vector_spaces:
            raise BadInput(f"desk: {name!r} is no engine over embeddings; there are: {', '.join(self.vector_engines)}")
        return self._vector_spaces[engine]

    def require_allowed(self, ids: Sequence[int]) -> None:
        """Checks that the topic may see every one of these documents.

        Raises:
            BadInput: The topic may not see one of them, or it does not exist.
        """
        asked = np.asarray(ids, np.int64)
        verdicts = self.allowed.judge(self.allowed.catalogue.rows(asked))
        if not verdicts.kept.all():
            refused = int(np.flatnonzero(~verdicts.kept)[0])
            reason = next(name for name in ("itself", "survey", "late") if getattr(verdicts, name)[refused])
            raise BadInput(f"topic {self.topic.topic_id}: document {asked[refused]} must not be seen ({reason})")


def describe_query(query: Query) -> str:
    """Describes a query in one line: text as sent, `term^weight ...`, or the digest of a vector."""
    if isinstance(query, WeightedTerms):
        return " ".join(f"{term}^{weight:.4g}" for term, weight in sorted(query.weights.items()))
    if isinstance(query, Vector):
        return f"vector {hashlib.sha256(query.values.astype('<f4').tobytes()).hexdigest()[:16]}"
    return query
