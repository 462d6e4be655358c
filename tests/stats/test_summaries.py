"""Summaries of groups: who is a member, what is averaged, which resamples a measure sees."""

import numpy as np
import pytest

from schemas.errors import BadInput
from tasks.stats.intervals import bootstrap_intervals
from tasks.stats.summaries import Summary, group_members, means, summarize

_ = np.nan


def test_groups_are_all_then_by_name() -> None:
    groups = group_members([["b"], ["a", "b", "a"], []])
    assert list(groups) == ["all", "a", "b"]
    assert {name: members.tolist() for name, members in groups.items()} == {
        "all": [True, True, True],
        "a": [False, True, False],
        "b": [True, True, False],
    }


def test_a_subject_that_names_all_does_not_narrow_it() -> None:
    assert group_members([["all"], []])["all"].tolist() == [True, True]
    assert group_members([])["all"].tolist() == []


def test_a_measure_is_averaged_over_the_subjects_that_have_a_value() -> None:
    values = np.array([[1.0, _, _], [2.0, 4.0, _], [6.0, 8.0, _]])
    whole, part, nothing = summarize(values, seed=1, resamples=500)
    assert (whole.valued, whole.mean) == (3, 3.0)
    assert (part.valued, part.mean) == (2, 6.0)
    assert nothing == Summary(0, None, None, None)
    assert means(values) == [3.0, 6.0, None]


def test_intervals_are_the_bootstraps_and_measures_of_the_same_subjects_share_it() -> None:
    generator = np.random.default_rng(3)
    values = generator.random((40, 3))
    values[:7, 1] = np.nan
    found = summarize(values, seed=5, resamples=400)
    shared = bootstrap_intervals(values[:, [0, 2]], 5, 400)
    alone = bootstrap_intervals(values[7:, [1]], 5, 400)
    assert [(found[0].low, found[0].high), (found[2].low, found[2].high)] == list(zip(*shared, strict=True))
    assert (found[1].low, found[1].high) == (alone.low[0], alone.high[0])
    assert shared.low[0] < found[0].mean < shared.high[0]  # pyright: ignore[reportOperatorIssue]


@pytest.mark.parametrize("order", ["C", "F"])
def test_without_subjects_there_is_no_mean(order: str) -> None:
    nothing = np.zeros((0, 2), order=order)  # pyright: ignore[reportCallIssue, reportArgumentType]
    assert summarize(nothing, seed=1) == [Summary(0), Summary(0)]
    assert means(nothing) == [None, None]


def test_an_infinite_value_is_an_error() -> None:
    with pytest.raises(BadInput, match="not finite"):
        summarize(np.array([[np.inf]]), seed=1)
