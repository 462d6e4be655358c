"""Tree distances: against reference tools, closed forms, and the bounds that any edit distance keeps."""

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zss
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from schemas.errors import BadInput
from schemas.mindmap import Tree, load_mindmap, tree_labels, tree_shape
from tasks.metrics import trees
from tasks.metrics.trees import (
    SENSITIVITY,
    normalised_distance,
    threshold_sensitivity,
    tree_edit_distance,
    tree_semantic_distance,
)

Cases = Callable[[str], list[dict[str, Any]]]

leaves = st.builds(lambda label: Tree(label=label, children=[]), st.sampled_from("abcdef"))
random_trees = st.recursive(
    leaves,
    lambda inner: st.builds(
        lambda label, children: Tree(label=label, children=children),
        st.sampled_from("abcdef"),
        st.lists(inner, max_size=4),
    ),
    max_leaves=14,
)
REPOSITORY = Path(__file__).resolve().parents[2]
letters = list("abcdef")


@st.composite
def similarities(draw: st.DrawFn) -> np.ndarray:
    """Cosines of six random directions: symmetric, 1 on the diagonal, negative ones too."""
    vectors = np.random.default_rng(draw(st.integers(0, 10_000))).normal(size=(6, 3))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors @ vectors.T


def chain(labels: list[str]) -> Tree:
    tree = Tree(label=labels[-1], children=[])
    for label in labels[-2::-1]:
        tree = Tree(label=label, children=[tree])
    return tree


def star(labels: list[str]) -> Tree:
    return Tree(label="centre", children=[Tree(label=label, children=[]) for label in labels])


def size(tree: Tree) -> int:
    return tree_shape(tree).nodes


def zss_distance(t1: Tree, t2: Tree, relabel=lambda a, b: int(a != b)) -> int:
    return zss.distance(
        t1,
        t2,
        lambda node: node["children"],
        insert_cost=lambda node: 1,
        remove_cost=lambda node: 1,
        update_cost=lambda a, b: relabel(a["label"], b["label"]),
    )


def test_edit_distance_of_every_reference_case(reference_cases: Cases) -> None:
    for case in reference_cases("ted"):
        assert tree_edit_distance(case["t1"], case["t2"]) == case["expected"]["ted"], case["id"]


def test_semantic_distances_of_every_reference_case(reference_cases: Cases) -> None:
    for case in reference_cases("tsd"):
        given = [case[key] for key in ("t1", "t2", "labels1", "labels2", "sim", "threshold")]
        found = {
            "tsd": tree_semantic_distance(*given),
            "ted": tree_edit_distance(*given[:2]),
            "tsd_ge": tree_semantic_distance(*given, inclusive=True),
            "tsd_free_ops": tree_semantic_distance(*given, free_ops=True),
        }
        assert found == case["expected"], case["id"]
        assert tree_semantic_distance(*given, aligned=True) <= found["tsd"], case["id"]


@settings(max_examples=60)
@given(random_trees, random_trees, similarities(), st.sampled_from(SENSITIVITY))
def test_distances_agree_with_zss(t1: Tree, t2: Tree, similarity: np.ndarray, threshold: float) -> None:
    assert tree_edit_distance(t1, t2) == zss_distance(t1, t2)
    costs = {
        (a, b): int(a != b and similarity[i, j] <= threshold)
        for i, a in enumerate(letters)
        for j, b in enumerate(letters)
    }
    expected = zss_distance(t1, t2, lambda a, b: costs[a, b])
    assert tree_semantic_distance(t1, t2, letters, letters, similarity, threshold) == expected


@settings(max_examples=60)
@given(random_trees, random_trees, similarities())
def test_bounds_symmetry_identity_and_thresholds(t1: Tree, t2: Tree, similarity: np.ndarray) -> None:
    edits = tree_edit_distance(t1, t2)
    row = list(threshold_sensitivity(t1, t2, letters, letters, similarity).values())
    assert abs(size(t1) - size(t2)) <= row[0] and row[-1] <= edits <= size(t1) + size(t2)
    assert row == sorted(row)
    assert tree_edit_distance(t2, t1) == edits
    assert list(threshold_sensitivity(t2, t1, letters, letters, similarity.T).values()) == row
    assert tree_edit_distance(t1, t1) == 0 == tree_semantic_distance(t1, t1, letters, letters, similarity)


@settings(max_examples=60)
@given(random_trees, random_trees, similarities())
def test_named_options_only_ever_lower_the_distance(t1: Tree, t2: Tree, similarity: np.ndarray) -> None:
    strict = threshold_sensitivity(t1, t2, letters, letters, similarity)
    for option in ("inclusive", "free_ops", "aligned"):
        row = threshold_sensitivity(t1, t2, letters, letters, similarity, **{option: True})
        assert all(row[threshold] <= strict[threshold] for threshold in SENSITIVITY)


@given(random_trees, random_trees)
def test_a_virtual_root_changes_no_distance(t1: Tree, t2: Tree) -> None:
    def rooted(tree: Tree) -> Tree:
        return {"label": "\0root", "children": [tree]}

    labels, similarity = ["a", "b", "c", "d", "e", "f"], np.full((6, 6), 0.9)
    assert tree_edit_distance(rooted(t1), rooted(t2)) == tree_edit_distance(t1, t2)
    assert tree_semantic_distance(rooted(t1), rooted(t2), labels, labels, similarity) == tree_semantic_distance(
        t1, t2, labels, labels, similarity
    )


def test_the_virtual_root_matches_no_other_label() -> None:
    forest, single = load_mindmap({"a": None, "b": None}), Tree(label="a", children=[])
    assert tree_semantic_distance(forest, single, ["a", "b"], ["a"], [[1.0], [1.0]]) == 2


@given(random_trees, st.randoms(use_true_random=False))
def test_aligned_order_undoes_any_shuffling_of_distinct_siblings(tree: Tree, shuffler: random.Random) -> None:
    names = iter(range(1_000))

    def shuffled(node: Tree) -> tuple[Tree, Tree]:
        label = str(next(names))
        pairs = [shuffled(child) for child in node["children"]]
        mixed = [second for _, second in pairs]
        shuffler.shuffle(mixed)
        return {"label": label, "children": [first for first, _ in pairs]}, {"label": label, "children": mixed}

    first, second = shuffled(tree)
    labels = tree_labels(first)
    assert tree_semantic_distance(first, second, labels, labels, np.eye(len(labels)), aligned=True) == 0


def test_a_cosine_at_the_threshold_matches_only_when_inclusive() -> None:
    gold, built = star(["x", "y"]), star(["u", "v"])
    given = (gold, built, ["centre", "x", "y"], ["centre", "u", "v"], np.array([[1, 0, 0], [0, 0.8, 0], [0, 0, 0.81]]))
    assert tree_semantic_distance(*given) == 1
    assert tree_semantic_distance(*given, inclusive=True) == 0
    assert threshold_sensitivity(*given) == {0.5: 0, 0.6: 0, 0.7: 0, 0.8: 1, 0.9: 2}


def test_normalised_distance_leaves_out_virtual_roots() -> None:
    gold, built = load_mindmap({"a": {"b": None, "c": None}}), load_mindmap({"x": None})
    assert normalised_distance(tree_edit_distance(gold, built), gold, built) == 3 / 4


@pytest.mark.parametrize("shape", [chain, star])
def test_chains_and_stars_of_5000_nodes_are_edited_like_strings(shape) -> None:
    choice = random.Random(7)
    first = [choice.choice(letters) for _ in range(4_999)]
    second = [label for label in first if choice.random() > 0.02]
    second[100:200] = reversed(second[100:200])
    expected = Levenshtein.distance(first, second)
    assert tree_edit_distance(shape(["centre", *first]), shape(["centre", *second])) == expected > 100


def test_a_chain_and_a_star_of_5000_nodes_share_a_root_and_a_leaf() -> None:
    labels = ["centre"] * 4_999
    assert tree_edit_distance(chain(["centre", *labels]), star(labels)) == 2 * 4_998


def test_combs_to_either_side_are_solved_along_their_long_path(monkeypatch: pytest.MonkeyPatch) -> None:
    def comb(left: bool) -> Tree:
        tree = Tree(label="end", children=[])
        for tooth in range(300):
            leaf = Tree(label=f"leaf {tooth}", children=[])
            tree = Tree(label=f"{tooth}", children=[tree, leaf] if left else [leaf, tree])
        return tree

    def rows(leaf: np.ndarray, keyroots: np.ndarray, _: np.ndarray) -> int:
        return int((keyroots - leaf[keyroots] + 1).sum())

    work: list[int] = []
    solve = trees._zhang_shasha
    monkeypatch.setattr(trees, "_zhang_shasha", lambda *given: work.append(rows(*given[0])) or solve(*given))
    for left in (True, False):
        assert tree_edit_distance(comb(left), comb(left)) == 0
    assert work == [601 + 300] * 2


LEAF = Tree(label="a", children=[])
CYCLE = Tree(label="a", children=[])
CYCLE["children"].append({"label": "b", "children": [CYCLE]})


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (CYCLE, "contains itself"),
        ({}, "must be a string, found None"),
        ({"label": "a"}, "must be a list"),
        ({"label": "a", "children": [None]}, "found NoneType"),
        ({"label": ["a"], "children": []}, "must be a string"),
        (None, "a node is a dict"),
    ],
)
def test_trees_of_another_form_are_refused(tree: Tree, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        tree_edit_distance(LEAF, tree)
    with pytest.raises(BadInput, match=message):
        tree_semantic_distance(tree, LEAF, ["a"], ["a"], [[1.0]])


@pytest.mark.parametrize(
    ("labels", "similarity", "threshold", "message"),
    [
        (["a"], [[1.0, 0.5]], 0.8, r"shape \(1, 2\), expected \(1, 1\)"),
        (["a"], [1.0], 0.8, r"shape \(1,\)"),
        (["a"], [[float("nan")]], 0.8, "at 0, 0 is nan"),
        (["a"], [[float("inf")]], 0.8, "is inf"),
        (["a"], [["x"]], 0.8, "no array of numbers"),
        (["a", "b"], [[1.0], [1.0, 2.0]], 0.8, "no array of numbers"),
        (["b"], [[1.0]], 0.8, "'a' and 0 more labels of a tree are not among the 1 given"),
        ([], np.zeros((0, 1)), 0.8, "not among the 0 given"),
        (["a"], [[1.0]], float("nan"), "threshold must be a finite number"),
    ],
)
def test_similarities_and_labels_that_do_not_fit_are_refused(labels, similarity, threshold, message) -> None:
    with pytest.raises(BadInput, match=message):
        tree_semantic_distance(LEAF, LEAF, labels, ["a"], similarity, threshold)


def test_trees_that_would_fill_the_memory_are_refused_before_any_work() -> None:
    huge = star(["a"] * 20_000)
    with pytest.raises(BadInput, match="20,001 by 20,001 nodes"):
        tree_edit_distance(huge, huge)


def test_without_numba_the_error_names_the_install_line() -> None:
    code = "import sys; sys.modules['numba'] = None; import tasks.metrics.trees"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=REPOSITORY)
    assert done.returncode == 1
    assert "MissingDependency: tree distances need numba: pip install 'research-arena[organize]'" in done.stderr
