"""Ties of many systems: p-values against scipy and against single comparisons, Holm's correction, places."""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from tasks.stats.intervals import compare
from tasks.stats.ties import corrected_p_values, holm, join_places, tied_places


def test_holm() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_each_pair_has_the_p_value_of_its_own_comparison() -> None:
    values = np.random.default_rng(1).random((37, 6)) + np.linspace(0, 0.3, 6)
    values[30:, 2] = np.nan
    single = {}
    for first, second in combinations(range(6), 2):
        both = ~np.isnan(values[:, first]) & ~np.isnan(values[:, second])
        single[first, second] = compare(values[both, first], values[both, second], seed=5).p_value
    expected = dict(zip(single, holm(list(single.values())), strict=True))
    assert corrected_p_values(values, seed=5) == pytest.approx(expected, abs=1e-12)


def test_p_values_agree_with_scipys_exact_test() -> None:
    values = np.random.default_rng(2).random((12, 3)) + np.array([0, 0.1, 0.4])
    exact = [
        stats.permutation_test(
            (values[:, a], values[:, b]), lambda x, y: np.mean(x - y), permutation_type="samples", n_resamples=np.inf
        ).pvalue
        for a, b in combinations(range(3), 2)
    ]
    assert list(corrected_p_values(values).values()) == pytest.approx(holm(exact), abs=0.02)


def test_systems_without_common_topics_are_not_compared() -> None:
    values = np.array([[1.0, np.nan, 0.5], [np.nan, 1.0, 0.5]])
    assert corrected_p_values(values).keys() == {(0, 2), (1, 2)}


def test_places_of_ties_follow_the_order_and_neighbours_are_joined() -> None:
    p_values = {(0, 1): 0.9, (0, 2): 0.001, (1, 2): 0.05, (0, 3): 1.0}
    assert tied_places([2, 0, 1], p_values) == {2: [3], 0: [3], 1: [1, 2]}
    assert join_places([1, 2, 3, 5, 8, 7]) == "1-3, 5, 7-8"
    assert join_places([]) == "none"
