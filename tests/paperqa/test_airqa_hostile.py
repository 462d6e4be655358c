"""No answer, of any type or text, raises, hangs, crashes or runs anything."""

import subprocess
import sys
import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.paperqa.evaluators import evaluate_answer

EVALUATORS = {
    "eval_string_exact_match": {"gold": ["BART", "T5 large"], "lowercase": True, "ignore_blank": True},
    "eval_string_fuzzy_match": {"gold": "deep residual learning", "threshold": 60},
    "eval_bool_exact_match": {"gold": True},
    "eval_int_exact_match": {"gold": 42},
    "eval_float_exact_match": {"gold": 4.25, "ndigits": 1},
    "eval_structured_object_exact_match": {
        "gold": [{"a": [1, 2.5, True, None, "x"]}, ["y"]],
        "ignore_order": True,
        "threshold": 80,
        "fuzz_method": "partial_ratio",
        "lowercase": True,
    },
    "eval_element_included": {"gold": ["a b", "c"], "threshold": 80, "fuzz_method": "token_set_ratio"},
    "eval_element_list_included": {"gold": ["a", "1"], "lowercase": True},
    "eval_element_list_overlap": {"gold": [{"a": 1}, [2]], "element_type": "structured", "count": 2},
    "eval_paper_relevance_with_reference_answer": {"question": "q", "reference_answer": ["A Title", "Another"]},
    "eval_reference_answer_with_llm": {"question": "q", "reference_answer": "r"},
    "eval_conjunction": {
        "eval_func_list": ["eval_int_exact_match", "eval_string_fuzzy_match"],
        "eval_kwargs_list": [{"gold": 1}, {"gold": "x", "fuzz_method": "token_sort_ratio"}],
    },
    "eval_negation": {"eval_func": "eval_float_exact_match", "eval_kwargs": {"gold": 1.0}},
}
LITERAL_TEXT = st.text("[](){}'\"\\,:.+-*# \n01eExjTrueNone", max_size=40)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.binary(max_size=8)
    | LITERAL_TEXT
)
ANSWERS = st.recursive(
    SCALARS | st.complex_numbers() | st.dates(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.sets(SCALARS, max_size=3)
        | st.dictionaries(SCALARS, inner, max_size=3)
    ),
    max_leaves=8,
)
MEGABYTE = 1_000_000


def echo(system, user, model, temperature):
    """A judge that repeats what it was shown, the answer included."""
    return user


def scores(answer):
    return {
        name: evaluate_answer({"eval_func": name, "eval_kwargs": kwargs}, answer, echo)
        for name, kwargs in EVALUATORS.items()
    }


@settings(max_examples=200)
@given(ANSWERS)
def test_any_answer_scores_zero_or_one(answer):
    assert set(scores(answer).values()) <= {0.0, 1.0}


@given(ANSWERS.map(str) | ANSWERS.map(repr))
def test_any_answer_as_text_scores_zero_or_one(answer):
    assert set(scores(answer).values()) <= {0.0, 1.0}


@given(st.dictionaries(st.sampled_from(["gold", "threshold", "ndigits", "count", "fuzz_method", "question"]), ANSWERS))
def test_any_arguments_score_zero_or_one(kwargs):
    for name in EVALUATORS:
        assert evaluate_answer({"eval_func": name, "eval_kwargs": kwargs}, "42", echo) in {0.0, 1.0}


class Hostile:
    """An object all of whose conversions fail."""

    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __eq__ = __float__ = __bool__ = __hash__ = __str__  # type: ignore[assignment]


def test_objects_that_resist_every_conversion_do_not_match():
    assert set(scores(Hostile()).values()) <= {0.0, 1.0}
    assert set(scores([Hostile()]).values()) <= {0.0, 1.0}


def deep(levels):
    answer = []
    for _ in range(levels):
        answer = [answer]
    return answer


def cyclic():
    answer = []
    answer.append(answer)
    return answer


LARGE = {
    "one letter": lambda: "a" * MEGABYTE,
    "words": lambda: "ab " * (MEGABYTE // 3),
    "blanks": lambda: " \u00a0" * (MEGABYTE // 2),
    "open brackets": lambda: "[" * MEGABYTE,
    "deep list": lambda: "[" * (MEGABYTE // 2) + "]" * (MEGABYTE // 2),
    "deep mapping": lambda: '{"a":' * (MEGABYTE // 5),
    "long list": lambda: "[" + "1," * (MEGABYTE // 2) + "1]",
    "long literal": lambda: "[" + "'a'," * (MEGABYTE // 25) + "]",
    "digits": lambda: "1" * MEGABYTE,
    "sums": lambda: "1+" * (MEGABYTE // 2) + "1",
    "signs": lambda: "- " * (MEGABYTE // 2),
    "quotes": lambda: "'''a" * (MEGABYTE // 4),
    "backslashes": lambda: "\\" * MEGABYTE,
    "fences": lambda: "```txt\n" * (MEGABYTE // 7),
    "places of a prompt": lambda: "$answer" * (MEGABYTE // 7),
    "nulls": lambda: "\0" * MEGABYTE,
    "half surrogates": lambda: "\ud800" * MEGABYTE,
    "integer": lambda: 10**400_000,
    "list of words": lambda: ["word"] * 300_000,
    "deep object": lambda: deep(100_000),
    "list in itself": cyclic,
    "mapping": lambda: dict.fromkeys(range(200_000)),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", LARGE)
def test_long_and_deep_answers_are_scored_in_time(kind):
    assert set(scores(LARGE[kind]()).values()) <= {0.0, 1.0}


@pytest.mark.parametrize("wrap", ["{}", "[{}]", "[1, {}]", "({},)", '{{"a": {}}}', "{{'a': {}}}", "f'{{{}}}'", "`{}`"])
def test_nothing_in_an_answer_runs(tmp_path, wrap):
    trace = tmp_path / "ran"
    code = f"__import__('pathlib').Path({str(trace)!r}).touch()"
    for answer in (wrap.format(code), [wrap.format(code), code], {"a": wrap.format(code)}):
        scores(answer)
    scores(wrap.format("exit()"))
    assert not trace.exists()


def test_chains_that_exhaust_the_parser_do_not_take_a_small_thread_down():
    program = """
        import threading
        from tasks.paperqa.evaluators import evaluate_answer

        def score():
            for text in ("1+" * 99_000 + "1", "a" + ".b" * 99_000, "[1]" + "[0]" * 60_000, "-" * 199_000 + "1"):
                evaluate_answer({"eval_func": "eval_element_list_included", "eval_kwargs": {"gold": ["x"]}}, text)
            print("survived")

        threading.stack_size(512 * 1024)
        thread = threading.Thread(target=score)
        thread.start()
        thread.join()
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60)
    assert run.stdout.strip() == "survived", run.stderr[-500:]
