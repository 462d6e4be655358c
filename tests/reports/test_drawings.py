"""Heat maps and trees: well-formed SVG that shows what it was given, with any text escaped."""

import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.mindmap import load_any
from tasks.reports.heatmap import LIGHT, draw_heat_map
from tasks.reports.treedrawing import draw_tree

SVG = "{http://www.w3.org/2000/svg}"
anything = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def fills(svg: str) -> list[str]:
    return [element.attrib["fill"] for element in ElementTree.fromstring(svg).iter(f"{SVG}rect")][1:]


def test_a_heat_map_has_a_cell_for_each_number() -> None:
    values = {("all", "one"): 10.0, ("all", "two"): 30.0, ("short", "two"): 20.0}
    svg = draw_heat_map(["all", "length", "short"], ["one", "two"], values, frozenset({"length"}))
    assert texts(svg) == ["one", "two", "all", "10.0", "30.0", "length", "short", "20.0"]
    low, high, middle = fills(svg)
    assert low == "#" + "".join(f"{part:02x}" for part in LIGHT)
    assert high == "#0b5cad" and int(high[1:3], 16) < int(middle[1:3], 16) < int(low[1:3], 16)


def test_equal_numbers_and_no_numbers_make_a_map_too() -> None:
    assert len(set(fills(draw_heat_map(["a", "b"], ["x"], {("a", "x"): 1.0, ("b", "x"): 1.0}, frozenset())))) == 1
    assert fills(draw_heat_map(["a"], ["x"], {}, frozenset())) == []


@given(st.lists(anything, min_size=1, max_size=4, unique=True))
def test_any_label_makes_a_well_formed_map(labels: list[str]) -> None:
    svg = draw_heat_map(labels, labels, {(labels[0], labels[0]): 1.0}, frozenset())
    assert len(texts(svg)) == 2 * len(labels) + 1


@pytest.mark.parametrize("label", ["<script>alert(1)</script>", 'a & b "c"', "</text><rect/>"])
def test_markup_in_a_label_stays_text(label: str) -> None:
    assert label in texts(draw_heat_map([label], ["x"], {}, frozenset()))
    svg = draw_tree(load_any({label: {"child": None}}))
    assert label in texts(svg) and "script" not in {e.tag for e in ElementTree.fromstring(svg).iter()}


def test_long_labels_are_cut() -> None:
    assert texts(draw_heat_map(["x" * 99], [], {}, frozenset())) == ["x" * 43 + "…"]


def test_a_tree_shows_its_size_and_indents_its_levels() -> None:
    svg = draw_tree(load_any({"Birds": {"Owls": None, "Ducks": {"Eider": None}}}))
    assert texts(svg) == ["4 nodes, 3 levels", "Birds", "Owls", "Ducks", "Eider"]
    left = [float(text.attrib["x"]) for text in ElementTree.fromstring(svg).iter(f"{SVG}text")][1:]
    assert left[0] < left[1] == left[2] < left[3]


def test_unprintable_letters_are_replaced() -> None:
    assert "a\ufffdb" in texts(draw_tree(load_any({"a\x07b": None})))
