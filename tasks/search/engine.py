"""What a search engine is, what it may use, and the registry of engines."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from pydantic import SecretStr

from schemas.registry import Registry
from schemas.search import Found
from schemas.settings import RetrieverName, Settings
from tasks.retrieval.documents import DocumentReader
from tasks.retrieval.retriever import Retriever
from tasks.search.web_engine import WebClient, WebLimits


class Engine(Protocol):
    """Answers a query with papers. What one returns is judged as it stands: no leakage filter, no topic."""

    def search(self, query: str, n: int) -> list[Found]:
        """At most `n` papers, best first.

        Args:
            query: What a person looks for; 1 to some hundred words.
            n: Number of papers, >= 1.

        Raises:
            ArenaError: This query has no answer; others may have.
        """
        ...


@runtime_checkable
class RecordedEngine(Protocol):
    """Knows what an engine answered to the queries of a test set; is asked by key, not by text."""

    def look_up(self, query_key: str, n: int) -> list[Found]:
        """At most `n` papers that were returned for a query, best first; none where the record has none."""
        ...


class Shelf(NamedTuple):
    """One retriever of an edition, and where what it finds is read."""

    retriever: Retriever
    reader: DocumentReader


class WebAccess(Settings):
    """How services on the web are spoken to; never part of a key, never written anywhere.

    Attributes:
        mailto: Address that services may write to; sent along where they ask for it.
        keys: API keys by engine.
        base_urls: Other addresses of engines, for mirrors and for tests.
        limits: Patience.
    """

    mailto: str = ""
    keys: Mapping[str, SecretStr] = {}
    base_urls: Mapping[str, str] = {}
    limits: WebLimits = WebLimits()

    def key(self, engine: str) -> str:
        """The API key for an engine; empty where there is none."""
        return self.keys[engine].get_secret_value() if engine in self.keys else ""


@dataclass(frozen=True)
class EngineKit:
    """All that an engine may use.

    Attributes:
        open_shelf: Opens a retriever of the edition.
        open_web: A client that keeps so many seconds between requests, and remembers replies.
        web: Addresses and keys.
        source: What the settings name: the address of a `url` engine.
        files: Files of recorded results; none for engines that are asked.
        query_keys: Keys of all queries.
    """

    open_shelf: Callable[[RetrieverName], Shelf]
    open_web: Callable[[float], WebClient]
    web: WebAccess = field(default_factory=WebAccess)
    source: str = ""
    files: tuple[Path, ...] = ()
    query_keys: tuple[str, ...] = ()


Opener = Callable[[EngineKit], Engine | RecordedEngine]


@dataclass(frozen=True)
class RegisteredEngine:
    """A registered engine: name, one sentence, how it is opened, version, and what it needs.

    Attributes:
        parts: Indexes of an edition that it searches; empty: it needs none.
        live: It asks a service, whose answers change with time.
    """

    name: str
    description: str
    open: Opener
    version: int
    parts: tuple[str, ...] = ()
    live: bool = False


_registry = Registry[RegisteredEngine]("search engine", "tasks.search.engines", group="arena.engines")

all_engines = _registry.all
"""Every engine by name: each file of this folder, and the entry points of other packages."""

find_engine = _registry.find
"""The engine of that name; where there is none, a UsageError lists those there are."""


def engine(
    name: str, description: str, *, version: int = 1, parts: tuple[str, ...] = (), live: bool = False
) -> Callable[[Opener], Opener]:
    """Registers a function that opens an engine.

    Args:
        name: Lower-case word, unique.
        description: One sentence: what it searches.
        version: Raised whenever its results can change.
        parts: Of `bm25`, `embeddings`: indexes of an edition that it searches.
        live: It asks a service, whose answers change with time.

    Raises:
        ValueError: Another engine has the name.
    """

    def decorate(opener: Opener) -> Opener:
        _registry.add(name, RegisteredEngine(name, description, opener, version, parts, live))
        return opener

    return decorate
