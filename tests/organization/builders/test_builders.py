"""Every registered builder keeps the contract; the dendrogram and the themes are right where one can see it."""

from datetime import date

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import UsageError
from schemas.mindmap import VIRTUAL_ROOT, Tree, dump_tree, load_tree, parse_tree, tree_labels, tree_shape
from schemas.topic import Topic
from tasks.llm.asker import Asker
from tasks.llm.blocking import BlockingDoor
from tasks.organization.builder import (
    Material,
    References,
    all_builders,
    builder,
    find_builder,
)
from tasks.organization.builders.themes import subject

TOPIC = Topic(7, "A Survey on Birds", date(2020, 1, 1))
FAMILIES = {
    "owl": "Night hunting of barn owls. Barn owls hunt mice at night by hearing.",
    "duck": "Diving depth of sea ducks. Sea ducks dive for mussels in cold water.",
    "crow": "Tool use in crows. Crows bend hooks and solve puzzles with tools.",
}


def material(texts: list[tuple[str, str]], vectors: np.ndarray, topic: Topic = TOPIC) -> Material:
    titles, abstracts = ([text[place] for text in texts] for place in (0, 1))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    references = References(tuple(range(len(texts))), tuple(titles), tuple(abstracts), unit.astype(np.float32))
    return Material(topic, references, (), 42)


def flock(count: int) -> Material:
    """Papers of three families; a family's vectors lie close together."""
    generator = np.random.default_rng(0)
    names = list(FAMILIES)
    texts = [(FAMILIES[names[i % 3]].split(". ")[0], FAMILIES[names[i % 3]] + f" Sample {i}.") for i in range(count)]
    centres = np.eye(8)[[i % 3 for i in range(count)]] if count else np.zeros((0, 8))
    return material(texts, centres + 0.05 * generator.normal(size=(count, 8)))


HOSTILE = {
    "no text": material([("", "")] * 9, np.random.default_rng(1).normal(size=(9, 8))),
    "stop words": material([("the of and", "is it")] * 9, np.random.default_rng(2).normal(size=(9, 8))),
    "all alike": material([("Owls", "Owls")] * 9, np.ones((9, 8))),
    "100 kB": material([("Owl " * 4_000, "x" * 100_000)] * 7, np.random.default_rng(3).normal(size=(7, 8))),
    "markup": material([("\0\ud800 <b>", "\u202e]]>")] * 9, np.random.default_rng(4).normal(size=(9, 8))),
}


@pytest.mark.parametrize("name", all_builders())
@pytest.mark.parametrize("given_material", [*map(flock, (0, 1, 2, 50)), *HOSTILE.values()], ids=[0, 1, 2, 50, *HOSTILE])
def test_every_builder_returns_the_same_valid_tree_twice(
    name: str, given_material: Material, stand_in_door: BlockingDoor
) -> None:
    made_by = find_builder(name)
    asker = Asker(stand_in_door, "organize", stand_in_door.door.settings.model_name, "7")
    given_material = given_material._replace(asker=asker if made_by.asks else None)
    made = made_by.build(given_material)
    assert made.outcome == "scored" and made.tree is not None
    assert made.tree["label"] == VIRTUAL_ROOT and load_tree(made.tree) == made.tree
    assert tree_shape(made.tree).nodes >= 1
    assert parse_tree(dump_tree(made.tree)) == made.tree
    assert made_by.build(given_material).tree == made.tree
    assert bool(asker.calls) == bool(made_by.asks)


def test_the_dendrogram_is_whole() -> None:
    made = find_builder("clustering").build(flock(50)).tree
    assert made is not None and tree_shape(made).nodes == 99
    stack, leaves = list(made["children"]), 0
    while stack:
        node = stack.pop()
        assert len(node["children"]) in (0, 2)
        leaves += not node["children"]
        stack += node["children"]
    assert leaves == 50


def test_labels_of_a_dendrogram_by_hand() -> None:
    """Two owls join before the duck does; `night owl` says most of the pair, longer n-grams win over their words."""
    vectors = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
    made = (
        find_builder("clustering").build(material([("Night owl", ""), ("Night owl", ""), ("Duck", "")], vectors)).tree
    )
    assert made is not None
    root = made["children"][0]
    assert root["label"] == "night owl"
    assert [child["label"] for child in root["children"]] == ["duck", "night owl"]
    assert [child["label"] for child in root["children"][1]["children"]] == ["night owl", "night owl"]
    collapsed = (
        find_builder("clustering_collapse")
        .build(material([("Night owl", ""), ("Night owl", ""), ("Duck", "")], vectors))
        .tree
    )
    assert collapsed == load_tree(Tree(label="night owl", children=[Tree(label="duck", children=[])]))


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 40), st.integers(0, 10_000))
def test_named_options_only_take_nodes_away(count: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    words = generator.choice(["owl", "duck", "crow", "night", "sea", "tool"], (count, 3))
    made = material([(" ".join(row), "") for row in words], generator.normal(size=(count, 4)))
    whole, collapsed, shallow = (
        find_builder(name).build(made).tree for name in ("clustering", "clustering_collapse", "clustering_shallow")
    )
    assert whole is not None and collapsed is not None and shallow is not None
    assert tree_shape(whole).nodes == 2 * count - 1
    assert set(tree_labels(collapsed)) == set(tree_labels(whole))
    assert tree_shape(collapsed).nodes <= tree_shape(whole).nodes
    assert tree_shape(shallow).depth == min(5, tree_shape(whole).depth)
    stack = list(collapsed["children"])
    while stack:
        node = stack.pop()
        assert all(child["label"] != node["label"] for child in node["children"])
        stack += node["children"]


def test_themes_find_the_families_and_name_them() -> None:
    made = find_builder("themes").build(flock(50)).tree
    assert made is not None
    root = made["children"][0]
    assert root["label"] == "Birds"
    named = [set(child["label"].casefold().split()) for child in root["children"]]
    families = [set(text.casefold().replace(".", "").split()) for text in FAMILIES.values()]
    assert len(named) == 3
    assert all(sum(bool(words & family) for words in named) >= 1 for family in families)
    assert tree_shape(made).depth <= 4


def test_themes_never_repeat_a_heading_among_siblings_or_above() -> None:
    made = find_builder("themes").build(flock(30)).tree
    assert made is not None
    stack = [(made["children"][0], frozenset[str]())]
    while stack:
        node, above = stack.pop()
        below = [child["label"].casefold() for child in node["children"]]
        assert len(set(below)) == len(below)
        assert node["label"].casefold() not in above
        stack += [(child, above | {node["label"].casefold()}) for child in node["children"]]


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("A Comprehensive Survey on Graph Networks", "Graph Networks"),
        ("Song of the Sea: A Review of Whale Hearing", "Whale Hearing"),
        ("Graph Networks: A Review of Methods and Applications", "Graph Networks: Methods and Applications"),
        ("Time Series: A Survey", "Time Series"),
        ("Surveying the land", "Surveying the land"),
        ("A survey", "A survey"),
    ],
)
def test_the_subject_of_a_title(title: str, expected: str) -> None:
    assert subject(title) == expected


def test_a_name_is_taken_once_and_unknown_names_are_listed() -> None:
    with pytest.raises(ValueError, match="two builders are named single"):
        builder("single", "Another.")(find_builder("single").build)
    with pytest.raises(UsageError, match="clustering, clustering_collapse"):
        find_builder("nobody")
