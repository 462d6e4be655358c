"""The interface of a system under test, and the registry of baselines."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint
from types import MappingProxyType
from typing import NamedTuple

from schemas.identifiers import Outcome
from schemas.llm import Demand
from schemas.registry import Registry
from schemas.settings import Parameter
from schemas.topic import Hit, Topic
from tasks.llm.asker import Asker, require_asker
from tasks.retrieval.desk import ResearchDesk


class Kit(NamedTuple):
    """Everything that a system may use for a topic.

    Attributes:
        desk: Searches the corpus.
        cutoff: How many documents to return.
        seed: For systems that draw something.
        asker: Asks a language model on behalf of the topic; None for systems that ask none.
        parameters: The system's own parameters, as the run's settings say.
    """

    desk: ResearchDesk
    cutoff: int
    seed: int
    asker: Asker | None = None
    parameters: Mapping[str, Parameter] = MappingProxyType({})

    @property
    def model(self) -> Asker:
        """The asker of a system that was registered with `asks`.

        Raises:
            UsageError: The system was registered without `asks`.
        """
        return require_asker(self.asker, "system")


class Ranking(NamedTuple):
    """What a system returns for a topic.

    Attributes:
        hits: Best first.
        outcome: How it ended.
        note: What went wrong, if anything.
        fallback: Whether a fallback replaced a failed model call.
        outline: The survey's outline in Markdown, of systems that write one.
    """

    hits: list[Hit]
    outcome: Outcome = "scored"
    note: str | None = None
    fallback: bool = False
    outline: str | None = None


System = Callable[[Topic, Kit], Ranking]


@dataclass(frozen=True)
class Baseline:
    """A registered system.

    Attributes:
        name: Lower-case word.
        description: One sentence for the report.
        system: The function.
        version: Raised when its results change.
        asks: What it asks a language model for a topic; None: it asks none.
        graph: Whether it uses the desk's `references` and `citations`.
        extends: The baseline that lacks one of its parts.
    """

    name: str
    description: str
    system: System
    version: int
    asks: Demand | None = None
    graph: bool = False
    extends: str | None = None


def _load_foreign(point: EntryPoint) -> Mapping[str, Baseline]:
    """Returns the systems of another package, whose code never runs in this process."""
    from tasks.ranking.isolated.system import describe_package

    return describe_package(point.value)


_registry = Registry[Baseline]("baseline", "tasks.ranking.baselines", group="arena.baselines", load=_load_foreign)

collect_baselines = _registry.collect
"""Returns the baselines that something registers while it is loaded, and keeps none of them."""

all_baselines = _registry.all
"""Every baseline by name: each file of `tasks/ranking/baselines`, and the entry points of other packages."""

find_baseline = _registry.find
"""Returns the baseline of that name, or raises a UsageError that lists all names."""


def load_entry(entry: str) -> None:
    """Imports what an entry point names, `module` or `module:attribute`, in this process."""
    module, _, attribute = entry.partition(":")
    loaded = import_module(module.strip())
    if attribute:
        getattr(loaded, attribute.strip())


def baseline(
    name: str,
    description: str,
    *,
    version: int = 1,
    asks: Demand | None = None,
    graph: bool = False,
    extends: str | None = None,
) -> Callable[[System], System]:
    """Registers a function as a baseline.

    Args:
        name: Lower-case word, unique.
        description: One sentence: what it does.
        version: Raised whenever its results can change.
        asks: What it asks a language model for a topic; required for systems that use `kit.model`.
        graph: Whether it uses `kit.desk.references` and `kit.desk.citations`: its desk then has the citation graph.
        extends: The baseline that lacks one of its parts: the report shows the difference between both.

    Raises:
        ValueError: Another baseline has the name.
    """

    def decorate(system: System) -> System:
        _registry.add(name, Baseline(name, description, system, version, asks, graph, extends))
        return system

    return decorate
