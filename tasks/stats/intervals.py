"""Uncertainty of means: bootstrap intervals, and the paired comparison of two systems."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.errors import BadInput

LEVEL = 0.95
RESAMPLES = 10_000
_BLOCK_CELLS = 2**22
"""Cells (resamples x topics) drawn at once; this bounds memory."""

Values = NDArray[np.float64]


class Intervals(NamedTuple):
    """Lower and upper ends of the 95 % intervals, `(n_measures,)` each."""

    low: Values
    high: Values


class Comparison(NamedTuple):
    """A comparison of two systems on the same topics.

    Attributes:
        difference: Mean over topics of (system - other).
        low: Lower end of its 95 % bootstrap interval.
        high: Upper end.
        p_value: Two-sided, of the randomisation test.
        wins: Topics where the system is better.
        ties: Topics where both are equal.
        losses: Topics where it is worse.
    """

    difference: float
    low: float
    high: float
    p_value: float
    wins: int
    ties: int
    losses: int

    @property
    def topics(self) -> int:
        """Topics that both systems were compared on."""
        return self.wins + self.ties + self.losses


def compare_common(system: Mapping[int, float], other: Mapping[int, float], seed: int = 42) -> Comparison | None:
    """Compares two systems on the topics that both have a value for; None where they have none in common.

    Args:
        system: Value of a measure by topic.
        other: The same of the system to compare with.
        seed: Of both resamplings.
    """
    common = sorted(system.keys() & other.keys())
    if not common:
        return None
    return compare(*(np.array([values[topic] for topic in common]) for values in (system, other)), seed=seed)


def bootstrap_intervals(values: Values, seed: int, resamples: int = RESAMPLES) -> Intervals:
    """Returns 95 % percentile intervals of the means over topics; all measures share the resampled topics.

    Args:
        values: `(n_topics, n_measures)`, n_topics >= 1.
        seed: Of the resampling; the same topics and seed give the same intervals.
        resamples: How many sets of topics to draw with replacement, >= 1.

    Raises:
        BadInput: No topic, or a value that is not finite.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap, 1993, section 13.3.
    """
    _require_finite(values)
    topics = len(values)

    def resample(generator: np.random.Generator, draws: int) -> Values:
        drawn = generator.integers(0, topics, (draws, topics)) + topics * np.arange(draws)[:, None]
        times = np.bincount(drawn.ravel(), minlength=draws * topics).reshape(draws, topics)
        return times @ values / topics

    means = _in_blocks(resample, topics, seed, resamples)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return Intervals(low, high)


def compare(system: Values, other: Values, seed: int = 42, resamples: int = RESAMPLES) -> Comparison:
    """Compares two systems by a measure's values on the same topics in the same order.

    The test draws a random sign for each topic's difference, as if the systems had been swapped on that topic, and
    counts how often the mean difference is at least as large as the observed one.

    Args:
        system: `(n_topics,)`, n_topics >= 1.
        other: As many values of the system to compare with.
        seed: Of both resamplings.
        resamples: Draws of each.

    Raises:
        BadInput: Different numbers of topics, none, or a value that is not finite.

    Source: Smucker, Allan and Carterette, CIKM 2007 (randomisation test); the paired bootstrap resamples topics.
    """
    if system.shape != other.shape or system.ndim != 1:
        raise BadInput(f"compare: values of shape {system.shape} and {other.shape}; give one value per topic for both")
    differences = system - other
    interval = bootstrap_intervals(differences[:, None], seed, resamples)
    seen = float(differences.mean())
    flipped = flipped_means(differences[:, None], seed, resamples)[:, 0]
    return Comparison(
        difference=seen,
        low=float(interval.low[0]),
        high=float(interval.high[0]),
        p_value=two_sided_p(flipped, seen),
        wins=int((differences > 0).sum()),
        ties=int((differences == 0).sum()),
        losses=int((differences < 0).sum()),
    )


def flipped_means(values: Values, seed: int, resamples: int = RESAMPLES) -> Values:
    """Returns means over topics, `(resamples, n_columns)`, where the values of each topic got a random common sign.

    For a difference of two columns it is as if the two systems had been swapped on random topics. The same number of
    topics and the same seed give the same signs.

    Args:
        values: `(n_topics, n_columns)`, n_topics >= 1.
        seed: Of the signs.
        resamples: How many sets of signs to draw.
    """

    def flip(generator: np.random.Generator, draws: int) -> Values:
        signs = 2 * generator.integers(0, 2, (draws, len(values)), dtype=np.int8) - 1
        return signs @ values / len(values)

    return _in_blocks(flip, len(values), seed, resamples)


def two_sided_p(flipped: Values, seen: float) -> float:
    """Returns the share of drawn mean differences, and of the observed one, that are at least as large as that one."""
    as_large = int((np.abs(flipped) >= abs(seen) - 1e-12).sum())
    return (1 + as_large) / (1 + len(flipped))


def _in_blocks(draw: Callable[[np.random.Generator, int], Values], topics: int, seed: int, resamples: int) -> Values:
    generator = np.random.default_rng(seed)
    block = max(1, _BLOCK_CELLS // topics)
    return np.concatenate([draw(generator, min(block, resamples - done)) for done in range(0, resamples, block)])


def _require_finite(values: Values) -> None:
    if not len(values):
        raise BadInput("bootstrap: there is no topic to resample; summarize at least one value")
    if not np.isfinite(values).all():
        raise BadInput("bootstrap: a value is not finite; leave out topics that cannot be evaluated")
