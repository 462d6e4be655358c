"""What a measure of a ranking is, and the registry of measures."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from schemas.registry import Registry

RankingTask = Literal["discovery", "selection"]
"""The two tasks that score the same runs; each has its table of measures."""

LAST = 1000
"""Order of a measure that names no place: behind those of this project."""


class Judged(NamedTuple):
    """Ranked lists of several topics, each document replaced by its gain: the label, 0 where irrelevant or unjudged.

    Attributes:
        retrieved: `(n_topics, depth) int64`, gains in rank order; 0 behind the end of a list.
        relevant: `(n_topics, most) int64`, gains of all relevant documents, descending; 0 behind the last.
    """

    retrieved: NDArray[np.int64]
    relevant: NDArray[np.int64]


MeasureFunction = Callable[..., NDArray[np.float64]]
"""Takes judged lists and fixed parameters, gives one value a topic, `(n_topics,) float64`."""


@dataclass(frozen=True)
class Measure:
    """A measure: call it with judged lists to get one value a topic.

    Attributes:
        name: As trec_eval writes it.
        function: Computes it.
        parameters: Passed to the function beside the judged lists.
        label: Header of its column.
        tables: Tasks whose tables show it.
        order: Place among the columns; equal ones follow by name.
    """

    name: str
    function: MeasureFunction
    parameters: Mapping[str, int]
    label: str
    tables: tuple[RankingTask, ...]
    order: int

    @property
    def description(self) -> str:
        """The first line of the function's docstring."""
        return (self.function.__doc__ or "").partition("\n")[0]

    def __call__(self, judged: Judged) -> NDArray[np.float64]:
        """Returns one value a topic, `(n_topics,)`."""
        return self.function(judged, **self.parameters)


_registry = Registry[Measure]("measure", "tasks.metrics.ranking", group="arena.metrics")


def measure(
    name: str,
    *,
    label: str | None = None,
    tables: tuple[RankingTask, ...] = get_args(RankingTask),
    order: int = LAST,
    **parameters: int,
) -> Callable[[MeasureFunction], MeasureFunction]:
    """Registers a function as a measure: it is scored for every run, and the tables of the CLI and the report show it.

    One function may carry several of these decorators, each with its own name and parameters.

    Args:
        name: As trec_eval writes it, for example `recall_100`.
        label: Header of its column, for example `Recall@100`; None: the name.
        tables: Tasks whose tables show it.
        order: Place among the columns of a table, ascending; by default behind this project's own.
        **parameters: Passed to the function beside the judged lists, for example `k=100`.

    Raises:
        ValueError: Another measure has the name.
    """

    def decorate(function: MeasureFunction) -> MeasureFunction:
        _registry.add(name, Measure(name, function, parameters, label or name, tables, order))
        return function

    return decorate


def all_measures() -> dict[str, Measure]:
    """Returns every measure by name: those of this package, and those that other packages add by entry points."""
    return _registry.all()


def column_labels(task: RankingTask) -> dict[str, str]:
    """Returns the measures of a task's table in the order of its columns: the label by the measure's name."""
    shown = sorted(
        (one for one in all_measures().values() if task in one.tables), key=lambda one: (one.order, one.name)
    )
    return {one.name: one.label for one in shown}
