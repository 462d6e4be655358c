"""The research desk: the only way in which a system under test reaches documents."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from schemas.errors import BadInput
from schemas.topic import Hit, Topic
from tasks.retrieval.documents import Document, DocumentReader
from tasks.retrieval.retriever import Allowed, Query, Retriever, Vector, WeightedTerms


class Search(NamedTuple):
    """A row of the table `searches`: one query with what the filter did to its answer."""

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


@runtime_checkable
class TermSpace(Protocol):
    """What an engine over terms tells besides hits: statistics of the whole index."""

    @property
    def n_documents(self) -> int:
        """Number of indexed documents."""
        ...

    def terms(self, text: str) -> list[str]:
        """The text's index terms, in order, repeated ones too."""
        ...

    def document_frequency(self, term: str) -> int:
        """Number of documents that hold an index term."""
        ...


@runtime_checkable
class VectorSpace(Protocol):
    """What an engine over embeddings tells besides hits."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of texts as queries, `(n, dim) float32`."""
        ...

    def vectors(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """Unit vectors of documents, `(n, dim) float32`, in the order of `ids`."""
        ...


class ResearchDesk:
    """Search, read and statistics for one topic; surveys, later papers and the topic itself do not exist here.

    Args:
        topic: Whose desk it is.
        engines: Retrievers by the name under which `search` takes them.
        primary: The engine that answers when none is named.
        allowed: The topic's leakage rule.
        documents: Where titles and abstracts are read.

    Raises:
        BadInput: `primary` is no engine, or `allowed` is the rule of another topic.
    """

    def __init__(
        self,
        topic: Topic,
        engines: Mapping[str, Retriever],
        primary: str,
        allowed: Allowed,
        documents: DocumentReader,
    ) -> None:
        if primary not in engines:
            raise BadInput(f"desk: no engine is named {primary!r}; there are: {', '.join(sorted(engines))}")
        if (allowed.topic_id, allowed.horizon) != (topic.topic_id, topic.horizon):
            raise BadInput(
                f"desk of topic {topic.topic_id} (horizon {topic.horizon}): the rule given is that of "
                f"topic {allowed.topic_id} (horizon {allowed.horizon})"
            )
        self.topic = topic
        self._searches: list[Search] = []
        self._engines = dict(engines)
        self._primary = primary
        self._allowed = allowed
        self._documents = documents

    @property
    def searches(self) -> tuple[Search, ...]:
        """Every query so far, in order: rows of the table `searches`."""
        return tuple(self._searches)

    @property
    def engines(self) -> tuple[str, ...]:
        """Names that `search` takes, sorted."""
        return tuple(sorted(self._engines))

    @property
    def primary(self) -> str:
        """The engine that answers when none is named."""
        return self._primary

    def search(self, query: Query, k: int, engine: str | None = None) -> list[Hit]:
        """The best `k` documents that the topic may see; fewer only when the engine has no more.

        Args:
            query: Text, weighted index terms or a vector, as the engine can take.
            k: Number of documents, >= 1.
            engine: One of `engines`; the primary one when None.

        Raises:
            BadInput: Unknown engine, a query that it cannot take, `k` < 1, or an engine that let a document through
                which the topic may not see.
        """
        name = engine or self._primary
        if name not in self._engines:
            raise BadInput(f"desk: no engine is named {name!r}; there are: {', '.join(self.engines)}")
        hits, trace = self._engines[name].search(query, k, self._allowed)
        self.require_allowed([hit.corpus_id for hit in hits])
        row = Search(self.topic.topic_id, len(self._searches), describe_query(query), name, k, len(hits), *trace)
        self._searches.append(row)
        return hits

    def read(self, ids: Sequence[int]) -> list[Document]:
        """Titles and abstracts, in the order of `ids`.

        Raises:
            BadInput: A document that the topic may not see, or that does not exist.
        """
        self.require_allowed(ids)
        return self._documents.read(ids)

    @property
    def has_terms(self) -> bool:
        """Whether an engine over terms is there: `terms`, `document_frequency`, `n_documents`, weighted queries."""
        return any(isinstance(engine, TermSpace) for engine in self._engines.values())

    @property
    def has_vectors(self) -> bool:
        """Whether an engine over embeddings is there: `vectors`, `embed`, vector queries."""
        return any(isinstance(engine, VectorSpace) for engine in self._engines.values())

    def vectors(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """Unit vectors of documents, `(n, dim) float32`, in the order of `ids`.

        Raises:
            BadInput: No engine over embeddings, a document that the topic may not see, or one without embedding.
        """
        self.require_allowed(ids)
        return self._vector_space().vectors(ids)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of texts as the dense engine embeds queries, `(n, dim) float32`.

        Raises:
            BadInput: No engine over embeddings.
        """
        return self._vector_space().embed(texts)

    def terms(self, text: str) -> list[str]:
        """The text's index terms, in order, repeated ones too.

        Raises:
            BadInput: No engine over terms.
        """
        return self._term_space().terms(text)

    def document_frequency(self, term: str) -> int:
        """Number of indexed documents that hold the index term, of the whole index: as the scores use it.

        Raises:
            BadInput: No engine over terms.
        """
        return self._term_space().document_frequency(term)

    @property
    def n_documents(self) -> int:
        """Number of documents that the engine over terms has indexed: the N that belongs to `document_frequency`.

        Raises:
            BadInput: No engine over terms.
        """
        return self._term_space().n_documents

    def _term_space(self) -> TermSpace:
        for engine in self._engines.values():
            if isinstance(engine, TermSpace):
                return engine
        raise BadInput(f"desk: none of the engines {', '.join(self.engines)} works on terms; add bm25")

    def _vector_space(self) -> VectorSpace:
        for engine in self._engines.values():
            if isinstance(engine, VectorSpace):
                return engine
        raise BadInput(f"desk: none of the engines {', '.join(self.engines)} works on embeddings; add dense")

    def require_allowed(self, ids: Sequence[int]) -> None:
        """Checks that the topic may see every one of these documents.

        Raises:
            BadInput: A document that the topic may not see, or that does not exist.
        """
        asked = np.asarray(ids, np.int64)
        verdicts = self._allowed.judge(self._allowed.catalogue.rows(asked))
        if not verdicts.kept.all():
            refused = int(np.flatnonzero(~verdicts.kept)[0])
            reason = next(name for name in ("itself", "survey", "late") if getattr(verdicts, name)[refused])
            raise BadInput(f"topic {self.topic.topic_id}: document {asked[refused]} is not to be seen ({reason})")


def describe_query(query: Query) -> str:
    """The query as one line for the record: text as sent, `term^weight ...`, or the digest of a vector."""
    if isinstance(query, WeightedTerms):
        return " ".join(f"{term}^{weight:.4g}" for term, weight in sorted(query.weights.items()))
    if isinstance(query, Vector):
        return f"vector {hashlib.sha256(query.values.astype('<f4').tobytes()).hexdigest()[:16]}"
    return query
