"""What a measure of a ranking is, and the registry of measures."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.registry import Registry


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

_registry = Registry[Measure]("measure", "tasks.metrics.ranking", group="arena.metrics")


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
        _registry.add(name, partial(function, **parameters))
        return function

    return decorate


def all_measures() -> dict[str, Measure]:
    """Every measure by name: each file of this folder, and the entry points of other packages."""
    return _registry.all()
