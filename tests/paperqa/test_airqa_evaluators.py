"""Each evaluator's own semantics, on made-up answers."""

import itertools
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import BadInput
from tasks.paperqa.evaluators import evaluate_answer, score_answer
from tasks.paperqa.evaluators.fuzzy import reaches
from tasks.paperqa.evaluators.pairing import largest_pairing
from tasks.paperqa.evaluators.parsing import UNREADABLE, parse_text
from tasks.paperqa.evaluators.registry import evaluator_names

STRUCTURED = "eval_structured_object_exact_match"
INCLUDED, OVERLAP = "eval_element_list_included", "eval_element_list_overlap"
SCALARS = st.integers(-99, 99) | st.sampled_from(["a", "B", "x y", "café"]) | st.booleans()
STRUCTURES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
)


def score(name, answer, judge=None, **kwargs):
    return evaluate_answer({"eval_func": name, "eval_kwargs": kwargs}, answer, judge)


def parts(*evaluators):
    return {
        "eval_func_list": [name for name, _ in evaluators],
        "eval_kwargs_list": [kwargs for _, kwargs in evaluators],
    }


def test_the_nineteen_functions_of_airqa_are_registered():
    foreign = {"eval_m3sciqa", "eval_scidqa"}
    assert len(set(evaluator_names()) - foreign) == 19


@pytest.mark.parametrize(
    ("name", "kwargs", "right", "wrong"),
    [
        ("eval_string_exact_match", {"gold": "Flickr"}, ["Flickr", " Flickr\n"], ["flickr", "Flickr.", "", None]),
        ("eval_string_exact_match", {"gold": "a b", "ignore_blank": True}, ["ab", "a\u00a0\nb"], ["a-b", "A B"]),
        ("eval_string_exact_match", {"gold": ["BART", "T5"], "lowercase": True}, ["bart", "t5"], ["bert", "bart, t5"]),
        ("eval_string_fuzzy_match", {"gold": "colour model"}, ["color model", "colour model"], ["colour", ""]),
        ("eval_string_fuzzy_match", {"gold": ["alpha", "omega"]}, ["omega"], ["gamma"]),
        ("eval_bool_exact_match", {"gold": False}, [False, 0, 0.0, " No ", "F"], [True, "no.", None, 2, "0.0"]),
        ("eval_bool_exact_match", {"gold": "false"}, [False, "n"], [True, "yes"]),
        ("eval_int_exact_match", {"gold": 42}, [42, 42.0, " +042 "], [42.9, "42.0", "1e3", True, [42], None]),
        ("eval_float_exact_match", {"gold": 1200}, ["1.2e3", 1200.0005, " +1200 "], ["1,200", "1200%", 1201, "nan"]),
        ("eval_float_exact_match", {"gold": 2.35, "ndigits": 1}, [2.4, "2.44"], [2.3, 2.46]),
        ("eval_float_exact_match", {"gold": 0.0}, [0, "-0.0"], [1e-12]),
        ("eval_float_exact_match", {"gold": 5.0, "tolerance": 0.5}, [10, 2.5], [10.1, "inf"]),
        (STRUCTURED, {"gold": [1, "a"]}, ["[1, 'a']", '[1, "a"]', (1, "a"), "1, 'a'"], [["a", 1], [1], "[[1, 'a']]"]),
        (STRUCTURED, {"gold": ["a"]}, ["a", ["a"]], ["b", "['a', 'a']"]),
        (
            STRUCTURED,
            {"gold": {"k": [True, None]}},
            ['{"k": [true, null]}', {"k": ["yes", "None"]}],
            ["{'k': []}", "k"],
        ),
        (STRUCTURED, {"gold": {"1": "one"}}, [{1: "one"}, "{1: 'one'}"], [{2: "one"}]),
        (STRUCTURED, {"gold": {}}, ["{}", {}], ["nothing", "[]", ""]),
        (STRUCTURED, {"gold": {"Key": 1}, "lowercase": True}, [{"kEY": 1}], [{"key ": 1}]),
        (STRUCTURED, {"gold": [2.5, [1, 2]], "ignore_order": True}, [[[2, 1], 2.5], "[[1, 2], 2.5]"], [[[1, 1], 2.5]]),
        (STRUCTURED, {"gold": ["a", "B"], "ignore_order": True, "lowercase": True}, [["b", "A"]], [["a", "a"]]),
        (STRUCTURED, {"gold": ["New York"], "threshold": 80}, ["New Yorc", ["NewYork"]], ["Boston"]),
        (STRUCTURED, {"gold": ["New York"], "threshold": 0.8}, ["New Yorc"], ["new", "Boston"]),
        ("eval_element_included", {"gold": ["a", "b"]}, ["a", " b "], ["c", ["a"], "['a']"]),
        ("eval_element_included", {"gold": [1.234], "element_type": "float"}, [1.2344, "1.23"], [1.24]),
        ("eval_element_included", {"gold": [[1, 2]], "element_type": "structured"}, ["[1, 2]"], [[2, 1]]),
        (INCLUDED, {"gold": ["a", "b"]}, [["a"], "['b', 'a', 'a']", "a"], [[], "[]", "", ["a", "c"]]),
        (INCLUDED, {"gold": [3, 4], "element_type": "int"}, ["[3]", [4.0, "3"]], [[3.5], [3, 5]]),
        (OVERLAP, {"gold": ["a", "b"], "count": 2, "lowercase": True}, ["['A', 'x', 'b']"], [["a", "A"], ["b"]]),
        ("eval_conjunction", parts(), ["[]", []], ["", ["x"]]),
        ("eval_disjunction", parts(), [], ["[]", []]),
        ("eval_negation", {"eval_func": "eval_int_exact_match", "eval_kwargs": {"gold": 1}}, [2, "", None], [1, "1"]),
    ],
)
def test_answers_are_told_apart(name, kwargs, right, wrong):
    assert [score(name, answer, **kwargs) for answer in right] == [1.0] * len(right)
    assert [score(name, answer, **kwargs) for answer in wrong] == [0.0] * len(wrong)


def test_titles_are_compared_by_likeness_whatever_their_case():
    kwargs = {"question": "Which?", "reference_answer": ["Attention Is All You Need", "A Study of Trees"]}
    name = "eval_paper_relevance_with_reference_answer"
    assert score(name, "attention is all you need.", **kwargs) == 1.0
    assert score(name, "Attention", **kwargs) == 0.0
    assert score(name, ["A Study of Trees"], **kwargs) == 0.0
    assert score(name, "A Study of Trees", **kwargs, lowercase=True) == 0.0, "unknown arguments are errors here"


def test_logical_parts_are_paired_with_elements_by_position():
    evaluators = parts(("eval_int_exact_match", {"gold": 1}), ("eval_string_exact_match", {"gold": "x"}))
    assert score("eval_conjunction", "[1, 'x']", **evaluators) == 1.0
    assert score("eval_conjunction", ["x", 1], **evaluators) == 0.0
    assert score("eval_disjunction", [2, "x"], **evaluators) == 1.0
    assert score("eval_disjunction", ["x", 1], **evaluators) == 0.0
    assert score("eval_disjunction", "x", **evaluators) == 0.0


def test_a_failed_run_scores_zero_even_under_negation():
    negated = {"eval_func": "eval_string_exact_match", "eval_kwargs": {"gold": "x"}}
    assert score("eval_negation", "[ERROR]: no answer", **negated) == 0.0
    assert score("eval_negation", " [ERROR]: no answer", **negated) == 1.0


@pytest.mark.parametrize(
    "evaluator",
    [
        {"eval_func": "eval_no_such", "eval_kwargs": {}},
        {"eval_func": "os.system", "eval_kwargs": {"command": "true"}},
        {"eval_func": ["eval_int_exact_match"], "eval_kwargs": {"gold": 1}},
        {"eval_func": "eval_int_exact_match"},
        {"eval_func": "eval_int_exact_match", "eval_kwargs": None},
        "eval_int_exact_match",
    ],
)
def test_what_is_no_known_evaluator_is_an_error_of_the_configuration(evaluator):
    with pytest.raises(BadInput):
        evaluate_answer(evaluator, "1")


def test_an_evaluator_that_cannot_score_says_why():
    unequal = {"eval_func_list": ["eval_int_exact_match"], "eval_kwargs_list": []}
    for name, kwargs, reason in [
        ("eval_string_exact_match", {}, "lacks gold"),
        ("eval_conjunction", unequal, "1 in eval_func_list against 0"),
        ("eval_negation", {"eval_func": "eval_no_such", "eval_kwargs": {}}, "unknown evaluator"),
        ("eval_string_fuzzy_match", {"gold": "x", "fuzz_method": "magic"}, "fuzz_method"),
        ("eval_element_included", {"gold": "abc"}, "must be a list"),
    ]:
        result = score_answer({"eval_func": name, "eval_kwargs": kwargs}, "x")
        assert result.score == 0.0
        assert reason in (result.failure or "")


@given(STRUCTURES)
def test_every_structure_matches_itself_as_object_json_and_literal(gold):
    for answer in (gold, json.dumps(gold), str(gold)):
        if not (isinstance(gold, bool | str) and answer != gold):
            assert score(STRUCTURED, answer, gold=gold) == 1.0


@given(st.lists(SCALARS, max_size=6), st.randoms(use_true_random=False))
def test_ignoring_order_any_permutation_matches_and_any_loss_does_not(gold, rng: random.Random):
    shuffled = rng.sample(gold, len(gold))
    assert score(STRUCTURED, shuffled, gold=gold, ignore_order=True) == 1.0
    assert score(STRUCTURED, [*shuffled, "more"], gold=gold, ignore_order=True) == 0.0


@given(st.lists(st.lists(st.booleans(), min_size=4, max_size=4), max_size=4))
def test_the_pairing_is_as_large_as_the_best_of_all_pairings(fits):
    size = largest_pairing(range(len(fits)), range(4), lambda i, j: fits[i][j])
    best = max(sum(fits[i][j] for i, j in enumerate(order[: len(fits)])) for order in itertools.permutations(range(4)))
    assert size == best


def naive_ratio(a, b):
    """Indel similarity by the textbook recurrence, rounded half to even."""
    row = [0] * (len(b) + 1)
    for x in a:
        previous = row[:]
        for j, y in enumerate(b, start=1):
            row[j] = previous[j - 1] + 1 if x == y else max(previous[j], row[j - 1])
    total = len(a) + len(b)
    return 100 if a == b else round(200 * row[-1] / total) if a and b else 0


@given(st.text("ab ", max_size=12), st.text("ab ", max_size=12), st.integers(2, 100))
def test_ratio_reaches_a_threshold_exactly_when_the_formula_does(a, b, threshold):
    assert reaches(a, b, "ratio", threshold) == (naive_ratio(a, b) >= threshold)


def test_token_methods_ignore_order_case_and_punctuation():
    assert reaches("Learning, DEEP!", "deep learning", "token_sort_ratio", 100)
    assert reaches("deep learning for vision", "Deep Learning", "token_set_ratio", 100)
    assert not reaches("...", "...", "token_set_ratio", 1)
    assert reaches("the deep learning book", "deep learning", "partial_ratio", 100)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (" [1, 2] # note", [1, 2]),
        ("(1, 'a')", (1, "a")),
        ("'a', 'b'", ("a", "b")),
        ("{'a': [1.5, None, -2e3]}", {"a": [1.5, None, -2000.0]}),
        ('["\\u00e9", true, null]', ["é", True, None]),
        ("['''it's''', \"a\\\"b\", r'\\d', 0x1F]", ["it's", 'a"b', "\\d", 31]),
        ("['a' 'b']", ["ab"]),
    ],
)
def test_json_and_literals_are_read(text, value):
    assert parse_text(text) == value


EXPRESSIONS = "[1 + 1]|list(range(3))|[1|[a]|[1][0]|{1: 2}.x|f'{1}'|1 if 1 else 2|--1|[x for x in ()]|'''a','''+1+1"


@pytest.mark.parametrize("text", ["", "plain words", "```\n[1]\n```", *EXPRESSIONS.split("|")])
def test_everything_else_stays_text(text):
    assert parse_text(text) is UNREADABLE
