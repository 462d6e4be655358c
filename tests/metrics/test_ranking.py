"""evaluate_run against the reference cases, against trec_eval on random input, and on bad input."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import BadInput
from tasks.metrics.ranking import Judged, all_measures, evaluate_run, measure

LABELLINGS = {"graded": "graded", "influential": "influential_only"}
MEASURES = {"P_10", "P_100", "recall_10", "recall_100", "ndcg_cut_10", "ndcg_cut_30", "ndcg_cut_100", "recip_rank"}


def test_reference_cases(reference_cases: Callable[[str], list[dict[str, Any]]]) -> None:
    for case in reference_cases("ir"):
        for labels, name in LABELLINGS.items():
            expected, found = case["expected"][name], evaluate_run(case["qrels"], case["run"], labels)
            place = f"{case['id']} {labels}"
            assert set(found["per_topic"]) == set(expected["per_query"]), place
            for topic, values in expected["per_query"].items():
                assert found["per_topic"][topic] == pytest.approx(values, abs=1e-6), f"{place} {topic}"
            assert found["mean_all"] == pytest.approx(expected["mean_all_qrels"], abs=1e-6), place
            assert found["mean_evaluated"] == pytest.approx(expected["mean_evaluated"], abs=1e-6), place


ids = st.text("019ab_é", min_size=1, max_size=3)
scores = st.floats(allow_nan=False) | st.integers(-3, 3) | st.sampled_from([0.1, 0.1 + 1e-12, -0.0, 1e-46])
judgments = st.dictionaries(ids, st.integers(-1, 3), min_size=1, max_size=8)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(ids, judgments, max_size=4), st.dictionaries(ids, st.dictionaries(ids, scores), max_size=4))
def test_equals_trec_eval(qrels: dict[str, dict[str, int]], run: dict[str, dict[str, float]]) -> None:
    reference = pytrec_eval.RelevanceEvaluator(qrels, {"P.10,100", "recall.10,100", "ndcg_cut.10,30,100", "recip_rank"})
    as_floats = {topic: {document: float(s) for document, s in hits.items()} for topic, hits in run.items()}
    expected = reference.evaluate(as_floats)
    found = evaluate_run(qrels, {topic: list(hits.items()) for topic, hits in run.items()})
    assert set(found["per_topic"]) == set(expected)
    for topic, values in expected.items():
        assert found["per_topic"][topic] == pytest.approx(values, abs=1e-6)


def test_missing_topics_count_zero_in_one_mean_only() -> None:
    found = evaluate_run({1: {7: 1}, 2: {8: 1}}, {1: [(7, 1.0)]})
    assert set(found["per_topic"]) == {1}
    assert found["mean_all"] is not None and found["mean_all"]["recall_10"] == 0.5
    assert found["mean_evaluated"] is not None and found["mean_evaluated"]["recall_10"] == 1.0


def test_nothing_to_evaluate_gives_no_means() -> None:
    assert evaluate_run({}, {1: [(7, 1.0)]}) == {"per_topic": {}, "mean_all": None, "mean_evaluated": None}
    assert evaluate_run({1: {7: 1}}, {1: [(7, 1.0)]}, "influential")["mean_all"] is None


def test_integer_ids_tie_as_strings() -> None:
    """9 stands before 10, as trec_eval reads them."""
    assert evaluate_run({1: {9: 1}}, {1: [(10, 0.5), (9, 0.5)]})["per_topic"][1]["recip_rank"] == 1.0


def test_values_do_not_depend_on_which_topics_are_held_together() -> None:
    """More topics than one block holds, with lists of very different length."""
    generator = np.random.default_rng(0)
    qrels = {t: {int(d): int(d) % 3 for d in generator.integers(0, 300, t % 60)} for t in range(1500)}
    run = {t: [(int(d), -float(i)) for i, d in enumerate(generator.permutation(300)[: t % 150])] for t in range(1500)}
    whole = evaluate_run(qrels, run)["per_topic"]
    for topic in (0, 7, 149, 1023, 1024, 1499):
        assert whole[topic] == pytest.approx(evaluate_run({topic: qrels[topic]}, run)["per_topic"][topic], abs=1e-12)


@pytest.mark.parametrize(
    ("qrels", "run", "labels", "message"),
    [
        ({"t": {"d": 1}}, {"t": [("d", math.nan)]}, "graded", "NaN"),
        ({"t": {"d": 1}}, {"t": [("d", "0.5")]}, "graded", "score is str"),
        ({"t": {"d": 1}}, {"t": [("d", None)]}, "graded", "score is NoneType"),
        ({"t": {"d": 1}}, {"t": ["d"]}, "graded", "pairs"),
        ({"t": {"d": 1}}, {"t": {"ab": 0.5}}, "graded", "score is str"),
        ({"t": {"d": 1.0}}, {"t": []}, "graded", "label is float"),
        ({"t": {"d": "1"}}, {"t": []}, "graded", "label is str"),
        ({"t": {"d": True}}, {"t": []}, "influential", "label is bool"),
        ({"t": {"d": 1}}, {"t": []}, "binary", "graded, influential"),
    ],
)
def test_bad_input_is_named(qrels: dict, run: dict, labels: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        evaluate_run(qrels, run, labels)  # pyright: ignore[reportArgumentType]


def test_every_measure_is_registered_once() -> None:
    assert set(all_measures()) >= MEASURES
    with pytest.raises(ValueError, match="recall_10"):
        measure("recall_10", k=10)(lambda judged, k: np.zeros(len(judged.retrieved)))


@pytest.mark.parametrize("name", sorted(MEASURES))
def test_measures_lie_between_nothing_and_the_ideal(name: str) -> None:
    """Contract of every measure: 0 for lists without a hit or without anything relevant, most for the ideal list."""
    relevant = np.array([[2, 1, 1], [1, 0, 0], [0, 0, 0]])
    function = all_measures()[name]
    nothing = function(Judged(np.zeros((3, 5), dtype=np.int64), relevant))
    reversed_list = function(
        Judged(np.concatenate([np.zeros((3, 2), dtype=np.int64), relevant[:, ::-1]], axis=1), relevant)
    )
    ideal = function(Judged(relevant, relevant))
    assert nothing.tolist() == [0, 0, 0]
    assert (reversed_list <= ideal).all() and ideal[2] == 0
    assert (ideal[:2] > 0).all() and (ideal <= 1).all()
    assert function(Judged(np.zeros((2, 0), dtype=np.int64), np.zeros((2, 0), dtype=np.int64))).tolist() == [0, 0]
