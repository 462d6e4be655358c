"""What a measure of a ranking is, and the registry of measures.

What belongs here: what a measure gets and returns. What does not: any measure (one file each beside this one).
"""

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache, partial
from importlib.metadata import entry_points
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

ENTRY_POINTS = "arena.metrics"


class Judged(NamedTuple):
    """Ranked lists of several topics, each document replaced by its gain: the label, 0 where irrelevant or unjudged.

    Attributes:
        retrieved: `(n_topics, depth) int64`, gains in rank order; 0 behind the end of a list.
        relevant: `(n_topics, most) int64`, gains of all relevant documents, descending; 0 behind the last.
    """

    retrieved: NDArray[np.int64]
    relevant: NDArray[np.int64]


Measure = Callable[[Judged], NDArray[np.float64]]
"""Gives one value a topic, `(n_topics,) float64`."""

_registry: dict[str, Measure] = {}


def measure(
    name: str, **parameters: int
) -> Callable[[Callable[..., NDArray[np.float64]]], Callable[..., NDArray[np.float64]]]:
    """Registers a function under a measure's name, with fixed parameters; decorates once per name.

    Args:
        name: As trec_eval writes it, for example `recall_100`.
        **parameters: What the function gets beside the judged lists, for example `k=100`.

    Raises:
        ValueError: Another measure has the name.
    """

    def decorate(function: Callable[..., NDArray[np.float64]]) -> Callable[..., NDArray[np.float64]]:
        if name in _registry:
            raise ValueError(f"two measures are named {name}")
        _registry[name] = partial(function, **parameters)
        return function

    return decorate


def all_measures() -> dict[str, Measure]:
    """Every measure by name: each file of this folder, and the entry points of other packages."""
    _discover()
    return dict(sorted(_registry.items()))


@cache
def _discover() -> None:
    package = importlib.import_module("tasks.metrics.ranking")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    for point in entry_points(group=ENTRY_POINTS):
        point.load()
