"""Bootstrap intervals and the paired test: known distributions, invariances, bad input."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from schemas.errors import BadInput
from tasks.stats.intervals import bootstrap_intervals, compare, compare_common

GENERATOR = np.random.default_rng(7)


def test_interval_agrees_with_scipy() -> None:
    values = GENERATOR.beta(2, 5, (60, 2))
    found = bootstrap_intervals(values, seed=1)
    for place in range(2):
        expected = stats.bootstrap(
            (values[:, place],), np.mean, method="percentile", n_resamples=10_000, rng=np.random.default_rng(2)
        ).confidence_interval
        assert found.low[place] == pytest.approx(expected.low, abs=0.004)
        assert found.high[place] == pytest.approx(expected.high, abs=0.004)


def test_measures_share_the_resampled_topics() -> None:
    """The interval of a copy, and of a shifted copy, follows exactly."""
    values = GENERATOR.random((31, 1))
    found = bootstrap_intervals(np.hstack([values, values, values + 1]), seed=3, resamples=500)
    assert found.low[0] == found.low[1]
    assert found.high[2] == pytest.approx(found.high[0] + 1)


def test_seed_decides_and_topics_beyond_one_block_are_drawn() -> None:
    values = GENERATOR.random((5000, 1))
    first, again, other = (bootstrap_intervals(values, seed, resamples=1000) for seed in (1, 1, 2))
    assert first.low == again.low and first.high == again.high
    assert first.low != other.low
    standard_error = values.std() / np.sqrt(len(values))
    assert first.high[0] - first.low[0] == pytest.approx(2 * 1.96 * standard_error, rel=0.1)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_interval_holds_the_mean_between_the_extremes(values: list[float]) -> None:
    found = bootstrap_intervals(np.array(values)[:, None], seed=5, resamples=400)
    assert min(values) - 1e-12 <= found.low[0] <= found.high[0] <= max(values) + 1e-12
    assert found.low[0] - 1e-12 <= np.mean(values) <= found.high[0] + 1e-12


def test_compare_agrees_with_scipy() -> None:
    better = GENERATOR.random(40)
    worse = better - GENERATOR.normal(0.05, 0.15, 40)
    found = compare(better, worse)
    expected = stats.permutation_test(
        (better - worse,), np.mean, permutation_type="samples", n_resamples=20_000, rng=np.random.default_rng(0)
    )
    assert found.p_value == pytest.approx(expected.pvalue, abs=0.015)
    assert found.difference == pytest.approx((better - worse).mean())
    assert found.low < found.difference < found.high


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=15))
def test_compare_is_antisymmetric(pairs: list[tuple[float, float]]) -> None:
    a, b = (np.array(side) for side in zip(*pairs, strict=True))
    ahead, behind = compare(a, b, resamples=300), compare(b, a, resamples=300)
    assert ahead.difference == pytest.approx(-behind.difference)
    assert ahead.p_value == behind.p_value
    assert (ahead.wins, ahead.ties, ahead.losses) == (behind.losses, behind.ties, behind.wins)
    assert ahead.wins + ahead.ties + ahead.losses == len(pairs)


def test_equal_systems_do_not_differ() -> None:
    values = GENERATOR.random(20)
    found = compare(values, values)
    assert (found.difference, found.low, found.high, found.p_value, found.ties) == (0, 0, 0, 1, 20)


@pytest.mark.parametrize(
    ("system", "other", "message"),
    [
        (np.zeros(3), np.zeros(4), "shape"),
        (np.zeros(0), np.zeros(0), "no topic"),
        (np.array([0.1, np.nan]), np.zeros(2), "not finite"),
    ],
)
def test_bad_input_is_named(system: np.ndarray, other: np.ndarray, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        compare(system, other)


def test_systems_are_compared_on_their_common_topics():
    system, other = {1: 0.5, 2: 0.25, 3: 1.0, 9: 0.0}, {3: 0.5, 2: 0.25, 1: 0.25, 4: 1.0}
    found = compare_common(system, other, seed=3)
    assert found == compare(np.array([0.5, 0.25, 1.0]), np.array([0.25, 0.25, 0.5]), seed=3)
    assert (found.topics, found.wins, found.ties) == (3, 2, 1)
    assert compare_common(system, {7: 1.0}) is None
