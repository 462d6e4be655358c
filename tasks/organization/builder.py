"""What a builder of mind-maps is, and the registry of builders.

What belongs here: what a builder gets and returns. What does not: any builder (one file each in `tasks/builders`).
"""

import importlib
import pkgutil
from collections.abc import Callable, Collection
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.errors import MissingDependency, UsageError
from schemas.identifiers import Outcome
from schemas.mindmap import Tree, load_tree
from schemas.topic import Topic
from tasks.organization.examples import Example

ENTRY_POINTS = "arena.builders"

Need = Literal["references", "vectors", "examples"]


class References(NamedTuple):
    """Papers to organise, in one order.

    Attributes:
        ids: corpus_ids.
        titles: Empty where there is none.
        abstracts: Empty where there is none.
        vectors: `(n, dim) float32`, unit vectors; dim is 0 for builders that do not need them.
    """

    ids: tuple[int, ...]
    titles: tuple[str, ...]
    abstracts: tuple[str, ...]
    vectors: NDArray[np.float32]


class Material(NamedTuple):
    """All that a builder may use for one topic; the topic's own mind-map is never among the examples."""

    topic: Topic
    references: References
    examples: tuple[Example, ...]
    seed: int


class Organized(NamedTuple):
    """What a builder returns for a topic: a tree (None: it has none), and how it ended."""

    tree: Tree | None
    outcome: Outcome = "scored"
    note: str | None = None
    fallback: bool = False


BuildTree = Callable[[Material], Organized]


@dataclass(frozen=True)
class Builder:
    """A registered builder: name, one sentence for the report, function, what it needs, version."""

    name: str
    description: str
    build: BuildTree
    needs: frozenset[Need]
    version: int


_registry: dict[str, Builder] = {}


def builder(
    name: str, description: str, *, needs: Collection[Need] = (), version: int = 1
) -> Callable[[BuildTree], BuildTree]:
    """Registers a function as a builder.

    Args:
        name: Lower-case word, unique.
        description: One sentence: what it does.
        needs: `references`: it makes a tree of references and has nothing to say without; `vectors`: it reads their
            embeddings; `examples`: it reads mind-maps of other surveys.
        version: Raised whenever its results can change.

    Raises:
        ValueError: Another builder has the name.
    """

    def decorate(build: BuildTree) -> BuildTree:
        if name in _registry:
            raise ValueError(f"two builders are named {name}")
        _registry[name] = Builder(name, description, build, frozenset(needs), version)
        return build

    return decorate


def all_builders() -> dict[str, Builder]:
    """Every builder by name: each file of `tasks/builders`, and the entry points of other packages.

    Raises:
        MissingDependency: A library that builders use is not installed.
    """
    package = importlib.import_module("tasks.builders")
    for module in pkgutil.iter_modules(package.__path__):
        try:
            importlib.import_module(f"tasks.builders.{module.name}")
        except ImportError as error:
            raise MissingDependency(
                f"builder {module.name}: {error}; pip install 'research-arena[organize]'"
            ) from error
    for point in entry_points(group=ENTRY_POINTS):
        point.load()
    return dict(sorted(_registry.items()))


def find_builder(name: str) -> Builder:
    """The builder of that name.

    Raises:
        UsageError: There is none; the message lists those there are.
    """
    known = all_builders()
    if name not in known:
        raise UsageError(f"no builder is named {name!r}; there are: {', '.join(known)}")
    return known[name]


def lone_node(topic: Topic) -> Tree:
    """The tree of one node, the topic's title, under a virtual root."""
    return load_tree(Tree(label=topic.title, children=[]))
