"""From values per subject (topic, query, question) to the mean of each group, with its interval."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tasks.stats.intervals import RESAMPLES, Values, bootstrap_intervals

ALL = "all"
"""The group of all subjects."""

Members = NDArray[np.bool_]
"""Which subjects belong to a group, `(n_subjects,)`."""


class Summary(NamedTuple):
    """One measure over a group of subjects.

    Attributes:
        valued: Subjects that have a value.
        mean: Mean over them; None without such subjects, like the interval.
        low: Lower end of its 95 % bootstrap interval.
        high: Upper end.
    """

    valued: int
    mean: float | None = None
    low: float | None = None
    high: float | None = None


def group_members(names: Sequence[Iterable[str]]) -> dict[str, Members]:
    """Returns the members of each group: `all` first, then the other groups by name.

    Args:
        names: For each subject, the groups it belongs to; it belongs to `all` in any case.
    """
    of_subjects = [set(of_subject) for of_subject in names]
    groups = sorted(set[str]().union(*of_subjects) - {ALL})
    return {ALL: np.ones(len(of_subjects), bool)} | {
        group: np.array([group in of_subject for of_subject in of_subjects], bool) for group in groups
    }


def summarize(values: Values, seed: int, resamples: int = RESAMPLES) -> list[Summary]:
    """Returns the summary of each measure; measures with values for the same subjects share their resamples.

    Args:
        values: `(n_subjects, n_measures)`, NaN where a subject has no value. The memory order decides in which order
            numbers are added, and with it the last bit of a mean.
        seed: Of the bootstrap.
        resamples: How many sets of subjects the bootstrap draws.

    Raises:
        BadInput: A value is infinite.
    """
    found = [Summary(0)] * values.shape[1]
    for places, known in _known_values(values):
        low, high = bootstrap_intervals(known, seed, resamples)
        for place, *numbers in zip(places, known.mean(axis=0).tolist(), low.tolist(), high.tolist(), strict=True):
            found[place] = Summary(len(known), *numbers)
    return found


def means(values: Values) -> list[float | None]:
    """Returns the mean of each measure over the subjects that have a value; None without such subjects.

    Args:
        values: As for `summarize`.
    """
    found: list[float | None] = [None] * values.shape[1]
    for places, known in _known_values(values):
        for place, mean in zip(places, known.mean(axis=0).tolist(), strict=True):
            found[place] = mean
    return found


def _known_values(values: Values) -> Iterator[tuple[Sequence[int], Values]]:
    """Yields the values of the measures that are known for the same subjects, with the columns of these measures."""
    known = ~np.isnan(values)
    columns: dict[bytes, list[int]] = {}
    for place in range(values.shape[1]):
        columns.setdefault(known[:, place].tobytes(), []).append(place)
    for places in columns.values():
        subjects = known[:, places[0]]
        if subjects.any():
            yield places, values if known.all() else values[subjects][:, places]
