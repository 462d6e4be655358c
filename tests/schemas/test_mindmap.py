"""The canonical tree: what a map in any of its forms is loaded as, and what is refused."""

import json
import unicodedata

import networkx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import BadInput
from schemas.mindmap import (
    VIRTUAL_ROOT,
    Tree,
    clean_label,
    load_mindmap,
    load_tree,
    parse_mindmap,
    tree_labels,
    tree_shape,
    walk,
)
from schemas.mindmap_graphs import from_networkx

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=20,
)


def outline(tree: Tree) -> list[str]:
    """The nodes below the virtual root, one line each, indented by their level."""
    (top, _), *nodes = walk(tree)
    assert top == VIRTUAL_ROOT
    return ["  " * (depth - 1) + label for label, depth in nodes]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": {"b": None, "c": {}}, "d": []}, ["a", "  b", "  c", "d"]),
        ({"a": "text", "b": "", "c": 2.5, "d": True}, ["a", "  text", "b", "c", "  2.5", "d", "  true"]),
        ({"a": ["x", {"y": "z", "w": None}, None, ["v", 1]]}, ["a", "  x", "  y", "    z", "  w", "  v", "  1"]),
        ({"a": {" ": {"b": {"c": None}}, "d": None}}, ["a", "  b", "    c", "  d"]),
        ({"": ["b", "c"], "d": None}, ["b", "c", "d"]),
        ({"  Deep\t\n learning ": None, "\ufb01ne\u00a0tuning": None}, ["Deep learning", "fine tuning"]),
        (["a", {"b": None}], ["a", "b"]),
        ("only text", ["only text"]),
    ],
)
def test_every_json_form_of_a_map_becomes_ordered_nodes(value: object, expected: list[str]) -> None:
    assert outline(load_mindmap(value)) == expected


def test_annotations_are_dropped_on_demand_with_all_below_them() -> None:
    value = {"a": {"Example": {"x": {"y": None}}, "b": {" description ": "long text"}, "exampled": None}}
    assert outline(load_mindmap(value, drop_annotations=True)) == ["a", "  b", "  exampled"]
    assert tree_shape(load_mindmap(value)).nodes == 8


def test_a_key_that_json_text_repeats_gives_a_node_each_time() -> None:
    assert outline(parse_mindmap('{"a": {"b": 1, "b": {"c": null}}, "a": null}')) == [
        "a",
        "  b",
        "    1",
        "  b",
        "    c",
        "a",
    ]


@given(json_values)
def test_text_and_value_load_alike_and_labels_are_clean(value: object) -> None:
    try:
        tree = load_mindmap(value)
    except BadInput as error:
        assert "no node has a label" in str(error)
        return
    assert list(walk(parse_mindmap(json.dumps(value)))) == list(walk(tree))
    assert list(walk(load_tree(tree))) == list(walk(tree))
    labels = tree_labels(tree)
    assert len(labels) == len(set(labels)) <= tree_shape(tree).nodes
    for label in labels:
        assert label == clean_label(label) == unicodedata.normalize("NFKC", label) == " ".join(label.split()) != ""
        label.encode()


def test_labels_cannot_pass_for_the_virtual_root_and_can_all_be_encoded() -> None:
    assert tree_labels(load_mindmap({VIRTUAL_ROOT: ["\ud800x"]})) == ["root", "\ufffdx"]


def test_counts_and_labels_leave_out_the_virtual_root() -> None:
    tree = load_mindmap({"a": {"b": {"a": None}}, "c": None})
    assert tree_shape(tree) == (4, 3)
    assert tree_labels(tree) == ["a", "b", "c"]
    assert tree_shape({"label": "x", "children": []}) == (1, 1)


def test_nested_nodes_load_under_any_label_key_with_leaves_without_children() -> None:
    value = {"name": " A ", "children": [{"name": "b"}, {"name": "", "children": [{"name": "c"}]}]}
    assert outline(load_tree(value, label_key="name")) == ["A", "  b", "  c"]
    assert outline(load_tree([value, {"name": "d"}], label_key="name")) == ["A", "  b", "  c", "d"]


def test_ten_thousand_levels_load_and_count() -> None:
    value: object = None
    for level in range(10_000):
        value = {f"n{level}": value}
    tree = load_mindmap(value)
    assert tree_shape(tree) == (10_000, 10_000)
    assert tree_shape(load_tree(tree)) == (10_000, 10_000)


def test_json_text_deeper_than_its_reader_is_refused_with_the_way_out() -> None:
    with pytest.raises(BadInput, match=r"nested deeper.*parsed value"):
        parse_mindmap('{"a":' * 100_000 + "1" + "}" * 100_000)


def test_a_label_of_100_kilobytes_is_kept_whole() -> None:
    assert tree_labels(load_mindmap({"x" * 100_000: None})) == ["x" * 100_000]


@pytest.mark.parametrize("value", [None, {}, [], "", {" ": {"\u3000": None}}])
def test_a_map_without_a_label_is_refused(value: object) -> None:
    with pytest.raises(BadInput, match="no node has a label"):
        load_mindmap(value)


@pytest.mark.parametrize("text", ["", "{'a': 1}", '{"a": 1', "9" * 5_000])
def test_text_that_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="not JSON"):
        parse_mindmap(text)


def test_values_that_json_does_not_know_are_refused() -> None:
    with pytest.raises(BadInput, match="set is no JSON value"):
        load_mindmap({"a": {"b"}})


def test_structures_that_contain_themselves_are_refused_and_shared_parts_are_not() -> None:
    value: dict[str, object] = {"b": None}
    assert outline(load_mindmap({"a": [value, value]})) == ["a", "  b", "  b"]
    value["b"] = [value]
    with pytest.raises(BadInput, match="contains itself"):
        load_mindmap({"a": value})
    node: Tree = {"label": "a", "children": []}
    node["children"].append({"label": "b", "children": [node]})
    for read in (load_tree, tree_labels):
        with pytest.raises(BadInput, match="contains itself"):
            read(node)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ("a", "a node is a dict"),
        ({"children": []}, "must be a string, found None"),
        ({"label": 3, "children": []}, "must be a string, found 3"),
        ({"label": "a", "children": {"label": "b"}}, "must be a list, found dict"),
    ],
)
def test_nodes_of_another_form_are_refused(node: object, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        load_tree({"label": "top", "children": [node]})


def test_a_node_without_children_is_a_leaf_only_while_loading() -> None:
    assert outline(load_tree({"label": "a"})) == ["a"]
    with pytest.raises(BadInput, match="'children' of node 'a' must be a list"):
        tree_shape({"label": "a"})  # type: ignore[typeddict-item]


def test_a_networkx_forest_loads_in_its_own_order() -> None:
    graph = networkx.DiGraph([("r", "b"), ("r", "a"), ("a", 7)])
    graph.add_node(7, label=" seven ")
    graph.add_node("alone")
    assert outline(from_networkx(graph)) == ["r", "  b", "  a", "    seven", "alone"]


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (networkx.DiGraph([("a", "b"), ("b", "c"), ("c", "b")]), "'b' of the graph has two parents"),
        (networkx.DiGraph([("a", "b"), ("c", "d"), ("d", "c")]), "cycle: 2 nodes"),
        (networkx.DiGraph([("a", "b"), ("c", "c")]), "cycle: 1 nodes"),
        (networkx.DiGraph([("a", "b"), ("b", "b")]), "'b' of the graph has two parents"),
        (networkx.Graph([("a", "b")]), "no direction"),
        (networkx.DiGraph([("a", 7)]), "node 7 has no text"),
        (networkx.DiGraph(), "no node has a label"),
    ],
)
def test_graphs_that_are_no_forest_of_texts_are_refused(graph: networkx.Graph, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        from_networkx(graph)
