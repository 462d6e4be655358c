"""What model-written builders will stand on: outlines, answers, and the choice of examples."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import BadInput
from schemas.mindmap import MapAnswer, Tree, dump_tree, load_any, load_tree, parse_tree, tree_labels, walk
from schemas.outline import parse_outline
from schemas.topic import Topic
from tasks.llm.structured import read_answer
from tasks.organization.examples import Example, choose_examples

TOPIC = Topic(3, "Deep Learning for Birds: A Survey", date(2020, 1, 1))


def levels(tree: Tree) -> list[tuple[str, int]]:
    return [(label, depth) for label, depth in walk(tree) if depth]


def test_headings_bullets_and_jumps() -> None:
    text = """Here is the outline.
# Birds
## Owls [1] [2, 3]
- Hearing
* **Night vision**
#### Barn owls ##
## Owls
prose that is no heading
# References
## Books
- Knuth
# Ducks
"""
    assert levels(parse_outline(text)) == [
        ("Birds", 1),
        ("Owls", 2),
        ("Hearing", 3),
        ("Night vision", 3),
        ("Barn owls", 3),
        ("Owls", 2),
        ("Ducks", 1),
    ]


@pytest.mark.parametrize("name", ["See also", "8. References:", "APPENDIX", "Further reading"])
def test_back_matter_goes_with_all_below_it(name: str) -> None:
    assert tree_labels(parse_outline(f"# Birds\n## {name}\n### Below\n- bullet\n## Ducks")) == ["Birds", "Ducks"]


@pytest.mark.parametrize("text", ["", "prose", "#", "# References\n- x", "-", "# [1]"])
def test_an_outline_without_headings_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="no node has a label"):
        parse_outline(text)


@given(st.lists(st.tuples(st.integers(1, 6), st.sampled_from(["Owls", "Ducks", "C#"])), min_size=1, max_size=30))
def test_headings_without_jumps_keep_their_levels(wanted: list[tuple[int, str]]) -> None:
    level, steps = 0, []
    for rise, label in wanted:
        level = min(rise, level + 1)
        steps.append((label, level))
    assert levels(parse_outline("\n".join(f"{'#' * depth} {label}" for label, depth in steps))) == steps


def test_hostile_outlines_are_read_in_time() -> None:
    assert tree_labels(parse_outline("#" * 100_000 + " deep\n# " + "# " * 50_000 + "x\n" + "# y " + "[1" * 50_000))
    assert levels(parse_outline("\n".join("#" * i + " a" for i in range(1, 2_000))))[-1] == ("a", 1_999)


@pytest.mark.parametrize(
    "text",
    [
        '{"Birds": {"Owls": null}}',
        'Sure!\n```json\n{"Birds": {"Owls": {}}}\n```\nDone.',
        '<think>{"no": "map"}</think>{"name": "Birds", "children": [{"name": "Owls"}]}',
        '{"label": "Birds", "children": [{"label": "Owls", "children": []}]}',
    ],
)
def test_answers_in_every_form_are_one_tree(text: str) -> None:
    answer = read_answer(text, MapAnswer).answer
    assert isinstance(answer, MapAnswer)
    assert levels(answer.tree) == [("Birds", 1), ("Owls", 2)]


@pytest.mark.parametrize("text", ["", "no", "}{", "{", '{"a": ', "{}", "[1, 2]", '{"a":' * 5_000 + "1" + "}" * 5_000])
def test_answers_without_a_map_are_told_what_is_wrong(text: str) -> None:
    read = read_answer(text, MapAnswer)
    assert read.answer is None
    assert read.problem


def example(topic_id: int, title: str = "", nodes: int = 10) -> Example:
    return Example(
        topic_id, title or f"Survey number {topic_id} of {'abcdefghijklmnop'[topic_id % 16] * 20}", "[]", nodes
    )


def test_examples_are_never_the_survey_itself() -> None:
    own = [example(3, TOPIC.title), example(4, "Deep learning for birds - a survey"), example(5, nodes=61)]
    assert choose_examples(own, TOPIC, seed=42) == ()
    others = [example(i) for i in range(10, 40)]
    drawn = choose_examples([*own, *others], TOPIC, seed=42)
    assert len(set(drawn)) == 3 and set(drawn) <= set(others)


def test_examples_depend_on_seed_and_topic_not_on_the_order_of_the_pool() -> None:
    pool = [example(i) for i in range(10, 40)]
    drawn = choose_examples(pool, TOPIC, seed=42)
    assert choose_examples(pool[::-1], TOPIC, seed=42) == drawn
    draws = {choose_examples(pool, Topic(i, "Fish", TOPIC.horizon), seed) for i in range(5) for seed in range(5)}
    assert len(draws) > 20


def test_any_form_is_the_same_tree() -> None:
    expected = load_tree(Tree(label="a", children=[Tree(label="b", children=[])]))
    forms = [{"a": {"b": None}}, {"name": "a", "children": [{"name": "b"}]}, '{"a": ["b"]}', expected]
    assert all(load_any(form) == expected for form in forms)
    assert load_any({"children": ["b"]}) == load_tree(Tree(label="children", children=[Tree(label="b", children=[])]))


def test_stored_trees_come_back_and_are_bounded() -> None:
    forest = load_any({"a": {"b": None}, "c": None})
    assert parse_tree(dump_tree(forest)) == forest
    chain = Tree(label="x", children=[])
    for _ in range(199):
        chain = Tree(label="x", children=[chain])
    assert parse_tree(dump_tree(load_tree(chain))) == load_tree(chain)
    with pytest.raises(BadInput, match="201 levels"):
        dump_tree(load_tree(Tree(label="x", children=[chain])))
