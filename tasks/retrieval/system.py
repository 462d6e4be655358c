"""What a system under test is, and the registry of baselines.

What belongs here: what a system gets and returns. What does not: any baseline (one file each in `tasks/baselines`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from schemas.identifiers import Outcome
from schemas.registry import Registry
from schemas.topic import Hit, Topic
from tasks.retrieval.desk import ResearchDesk


class Kit(NamedTuple):
    """All that a system may use: the desk it searches through, how many documents to return, a seed."""

    desk: ResearchDesk
    cutoff: int
    seed: int


class Ranking(NamedTuple):
    """What a system returns for a topic: hits best first, and how it ended."""

    hits: list[Hit]
    outcome: Outcome = "scored"
    note: str | None = None
    fallback: bool = False


System = Callable[[Topic, Kit], Ranking]


@dataclass(frozen=True)
class Baseline:
    """A registered system: name, one sentence for the report, function, version (raised when its results change)."""

    name: str
    description: str
    system: System
    version: int


_registry = Registry[Baseline]("baseline", "tasks.baselines", group="arena.baselines")


def baseline(name: str, description: str, *, version: int = 1) -> Callable[[System], System]:
    """Registers a function as a baseline.

    Args:
        name: Lower-case word, unique.
        description: One sentence: what it does.
        version: Raised whenever its results can change.

    Raises:
        ValueError: Another baseline has the name.
    """

    def decorate(system: System) -> System:
        _registry.add(name, Baseline(name, description, system, version))
        return system

    return decorate


def all_baselines() -> dict[str, Baseline]:
    """Every baseline by name: each file of `tasks/baselines`, and the entry points of other packages."""
    return _registry.all()


def find_baseline(name: str) -> Baseline:
    """The baseline of that name.

    Raises:
        UsageError: There is none; the message lists those there are.
    """
    return _registry.find(name)
