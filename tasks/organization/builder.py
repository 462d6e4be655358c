"""The interface and the registry of builders of mind-maps."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.identifiers import Outcome
from schemas.llm import Demand
from schemas.mindmap import Tree, load_tree
from schemas.registry import Registry
from schemas.topic import Topic
from tasks.llm.asker import Asker, require_asker
from tasks.organization.examples import Example

Need = Literal["references", "vectors", "examples", "outline"]


class References(NamedTuple):
    """Papers to organise, in one order.

    Attributes:
        ids: corpus_ids.
        titles: Empty when a paper has none.
        abstracts: Empty when a paper has none.
        vectors: `(n, dim) float32`, unit vectors; dim is 0 for builders that do not need them.
    """

    ids: tuple[int, ...]
    titles: tuple[str, ...]
    abstracts: tuple[str, ...]
    vectors: NDArray[np.float32]


class Material(NamedTuple):
    """Everything that a builder may use for one topic; the topic's own mind-map is never among the examples.

    Attributes:
        topic: The survey's title and date.
        references: Papers to organise; none for builders that do not need them.
        examples: Mind-maps of other surveys, for builders that need them.
        seed: For builders that use random numbers.
        asker: Asks a language model on the topic's behalf.
        outline: A run's outline in Markdown, for builders that need it; None if the run wrote none for this topic.
    """

    topic: Topic
    references: References
    examples: tuple[Example, ...]
    seed: int
    asker: Asker | None = None
    outline: str | None = None

    @property
    def model(self) -> Asker:
        """The asker of a builder that was registered with `asks`.

        Raises:
            UsageError: The builder was registered without `asks`.
        """
        return require_asker(self.asker, "builder")


class Organized(NamedTuple):
    """The result of a builder for a topic: a tree or None, and the outcome."""

    tree: Tree | None
    outcome: Outcome = "scored"
    note: str | None = None
    fallback: bool = False


BuildTree = Callable[[Material], Organized]


@dataclass(frozen=True)
class Builder:
    """A registered builder: name, one-sentence description, function, needs, version, and its model calls if any."""

    name: str
    description: str
    build: BuildTree
    needs: frozenset[Need]
    version: int
    asks: Demand | None = None


_registry = Registry[Builder]("builder", "tasks.organization.builders", group="arena.builders", extra="organize")

all_builders = _registry.all
"""Every builder by name: each file of `tasks/organization/builders`, and the entry points of other packages."""

find_builder = _registry.find
"""Returns the builder of that name; if there is none, a UsageError lists the builders."""


def builder(
    name: str, description: str, *, needs: Collection[Need] = (), version: int = 1, asks: Demand | None = None
) -> Callable[[BuildTree], BuildTree]:
    """Registers a function as a builder.

    Args:
        name: Lower-case word, unique.
        description: One sentence: what it does.
        needs: `references`: it makes trees of references; `vectors`: it reads their embeddings; `examples`: it reads
            mind-maps of other surveys; `outline`: it reads what a run of the same name wrote while it searched.
        version: Raised whenever its results can change.
        asks: The model calls that it makes for a topic, for estimates; its material then has an asker.

    Raises:
        ValueError: Another builder has the name.
    """

    def decorate(build: BuildTree) -> BuildTree:
        _registry.add(name, Builder(name, description, build, frozenset(needs), version, asks))
        return build

    return decorate


def lone_node(topic: Topic) -> Tree:
    """Returns a tree of one node, the topic's title, under a virtual root."""
    return load_tree(Tree(label=topic.title, children=[]))
