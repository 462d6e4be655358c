"""What a search engine is, what it can use, and the registry of engines."""

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
    """Finds papers for a query. Results are judged as returned: no leakage filter, no topic."""

    def search(self, query: str, n: int) -> list[Found]:
        """Returns at most `n` papers, best first.

        Args:
            query: What a person looks for, in one to a few hundred words.
            n: Number of papers, >= 1.

        Raises:
            ArenaError: The engine fails on this query; it may succeed on others.
        """
        ...


@runtime_checkable
class RecordedEngine(Protocol):
    """Holds what an engine returned for the queries of a test set, by query key instead of text."""

    def look_up(self, query_key: str, n: int) -> list[Found]:
        """Returns at most `n` papers recorded for a query, best first; none when nothing is recorded."""
        ...


class Shelf(NamedTuple):
    """A retriever of an edition, and the reader of the documents it finds."""

    retriever: Retriever
    reader: DocumentReader


class WebAccess(Settings):
    """How to reach services on the web; never part of a dataset's key, never written anywhere.

    Attributes:
        mailto: Contact address, sent to services that ask for one.
        keys: API keys by engine.
        base_urls: Addresses that replace the engines' own, for mirrors and tests.
        limits: How patiently a service is asked.
    """

    mailto: str = ""
    keys: Mapping[str, SecretStr] = {}
    base_urls: Mapping[str, str] = {}
    limits: WebLimits = WebLimits()

    def key(self, engine: str) -> str:
        """Returns the API key of an engine; empty when there is none."""
        return self.keys[engine].get_secret_value() if engine in self.keys else ""


@dataclass(frozen=True)
class EngineKit:
    """Everything that an engine can use.

    Attributes:
        open_shelf: Opens a retriever of the edition.
        open_web: Opens a client that keeps this many seconds between requests and remembers replies.
        web: Addresses and keys.
        source: The address of a `url` engine, from the settings.
        files: Files of recorded results; none for engines that search.
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
    """A registered engine: its name, a sentence about it, how to open it, its version, and what it needs.

    Attributes:
        parts: Indexes of an edition that it searches; empty: it needs none.
        live: It asks a service, whose results change with time.
    """

    name: str
    description: str
    open: Opener
    version: int
    parts: tuple[str, ...] = ()
    live: bool = False


_registry = Registry[RegisteredEngine]("search engine", "tasks.search.engines", group="arena.engines")

all_engines = _registry.all
"""Returns every engine by name: one for each file of `tasks.search.engines`, and those of other packages."""

find_engine = _registry.find
"""Returns the engine of a name; for an unknown name it raises a UsageError that lists the engines."""


def engine(
    name: str, description: str, *, version: int = 1, parts: tuple[str, ...] = (), live: bool = False
) -> Callable[[Opener], Opener]:
    """Registers a function that opens an engine.

    Args:
        name: Lower-case word, unique.
        description: One sentence: what it searches.
        version: Raised whenever its results can change.
        parts: Of `bm25`, `embeddings`: indexes of an edition that it searches.
        live: It asks a service, whose results change with time.

    Raises:
        ValueError: Another engine has the name.
    """

    def decorate(opener: Opener) -> Opener:
        _registry.add(name, RegisteredEngine(name, description, opener, version, parts, live))
        return opener

    return decorate
