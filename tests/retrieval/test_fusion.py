"""Fusion: reference cases, and properties that hold for any lists."""

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.retrieval.fusion import maximum_score_fusion, reciprocal_rank_fusion

Cases = Callable[[str], list[dict[str, Any]]]


def test_reference_cases_of_reciprocal_ranks(reference_cases: Cases) -> None:
    for case in reference_cases("rrf"):
        fused = reciprocal_rank_fusion(case["rankings"], case["k"])
        assert dict(fused) == pytest.approx(case["expected"]["scores"], abs=1e-9), case["id"]
        place = 0
        for group in case["expected"]["tie_groups"]:
            found = [document for document, _ in fused[place : place + len(group)]]
            assert sorted(found) == sorted(group), case["id"]
            place += len(group)
        assert place == len(fused) == case["expected"]["n"]


def test_reference_cases_of_best_scores(reference_cases: Cases) -> None:
    scored = [case for case in reference_cases("rrf") if "list_scores" in case]
    assert scored
    for case in scored:
        lists = [list(zip(*pair, strict=True)) for pair in zip(case["rankings"], case["list_scores"], strict=True)]
        fused = maximum_score_fusion(lists)
        assert dict(fused) == pytest.approx(case["expected"]["combmax_scores"], abs=1e-9), case["id"]
        assert [score for _, score in fused] == sorted((score for _, score in fused), reverse=True)


def test_ties_are_broken_by_best_rank_then_by_the_earlier_list() -> None:
    assert [doc for doc, _ in reciprocal_rank_fusion([[7, 1], [5, 1], [3]])] == [1, 7, 5, 3]
    assert [doc for doc, _ in reciprocal_rank_fusion([["b", "a"], ["a", "b"]])] == ["b", "a"]
    same = reciprocal_rank_fusion([[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    assert [doc for doc, _ in same] == [1, 2, 3]
    assert len({score for _, score in same}) == 1, "sums must not depend on the order of the lists"
    assert maximum_score_fusion([[("a", 1.0)], [("b", 2.0), ("c", 1.0), ("a", 0.5)]]) == [
        ("b", 2.0),
        ("a", 1.0),
        ("c", 1.0),
    ]
    assert reciprocal_rank_fusion([]) == maximum_score_fusion([]) == []


@given(st.lists(st.lists(st.integers(0, 30), max_size=12), max_size=6), st.sampled_from([0, 1, 60]))
def test_scores_are_sums_over_the_lists_and_best_come_first(rankings: list[list[int]], k: int) -> None:
    fused = reciprocal_rank_fusion(rankings, k)
    unique = [list(dict.fromkeys(ranking)) for ranking in rankings]
    assert sorted(doc for doc, _ in fused) == sorted({doc for ranking in unique for doc in ranking})
    for doc, score in fused:
        assert math.isclose(score, sum(1 / (k + r.index(doc) + 1) for r in unique if doc in r))
    assert [score for _, score in fused] == sorted((score for _, score in fused), reverse=True)
