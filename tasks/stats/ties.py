"""Which of many systems can be told apart: paired tests of all pairs, with Holm's correction."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from tasks.stats.intervals import RESAMPLES, Values, flipped_means, two_sided_p

SIGNIFICANT = 0.05
"""Systems whose corrected p-value is this or more are tied."""

Pair = tuple[int, int]
"""Two columns, the smaller number first."""


def holm(p_values: Sequence[float]) -> list[float]:
    """Returns the p-values, corrected for multiple comparisons, in the same order.

    Source: Holm, Scandinavian Journal of Statistics 6(2), 1979.
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    corrected, most = [0.0] * len(p_values), 0.0
    for done, place in enumerate(order):
        most = max(most, min(1.0, (len(p_values) - done) * p_values[place]))
        corrected[place] = most
    return corrected


def corrected_p_values(values: Values, seed: int = 42, resamples: int = RESAMPLES) -> dict[Pair, float]:
    """Returns the p-value of each pair of systems, two-sided, corrected for the number of pairs.

    The randomisation test of `tasks.stats.intervals.compare` runs on the topics that both systems have; a pair without
    a common topic is left out.

    Args:
        values: `(n_topics, n_systems)`, NaN where a system has no value for a topic.
        seed: Of the test.
        resamples: Draws of the test.
    """
    found: dict[Pair, float] = {}
    for topics, pairs in _by_common_topics(values):
        columns = sorted({column for pair in pairs for column in pair})
        at = {column: place for place, column in enumerate(columns)}
        part = values[topics][:, columns]
        flipped, means = flipped_means(part, seed, resamples), part.mean(axis=0)
        for first, second in pairs:
            a, b = at[first], at[second]
            found[first, second] = two_sided_p(flipped[:, a] - flipped[:, b], float(means[a] - means[b]))
    return dict(zip(found, holm(list(found.values())), strict=True))


def _by_common_topics(values: Values) -> Iterator[tuple[NDArray[np.intp], list[Pair]]]:
    """Yields the pairs that have the same topics in common, with the places of these topics."""
    known = ~np.isnan(values)
    groups: dict[bytes, list[Pair]] = {}
    for pair in combinations(range(values.shape[1]), 2):
        groups.setdefault((known[:, pair[0]] & known[:, pair[1]]).tobytes(), []).append(pair)
    for common, pairs in groups.items():
        topics = np.flatnonzero(np.frombuffer(common, bool))
        if len(topics):
            yield topics, pairs


def tied_places(order: Sequence[int], p_values: Mapping[Pair, float]) -> dict[int, list[int]]:
    """Returns for each system the places, from 1, of the systems that it cannot be told apart from.

    Args:
        order: Systems, best first; systems of `p_values` that are not in it count nowhere.
        p_values: Corrected, by pair.
    """
    place = {system: at for at, system in enumerate(order, 1)}
    found: dict[int, list[int]] = {system: [] for system in order}
    for (first, second), p_value in p_values.items():
        if p_value >= SIGNIFICANT and first in place and second in place:
            found[first].append(place[second])
            found[second].append(place[first])
    return {system: sorted(places) for system, places in found.items()}


def join_places(places: Collection[int]) -> str:
    """Returns places as text, neighbours joined: `2-4, 7`; `none` without any."""
    runs: list[list[int]] = []
    for place in sorted(places):
        if runs and place == runs[-1][1] + 1:
            runs[-1][1] = place
        else:
            runs.append([place, place])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in runs) or "none"
