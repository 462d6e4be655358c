"""Mind-maps as ordered labelled trees: the one canonical form, and every way into it.

Everything is iterative: a map nested 10,000 levels deep is loaded and walked like any other.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from typing import Any, NamedTuple, TypedDict, cast

from pydantic import JsonValue, RootModel, model_validator

from schemas.errors import BadInput

VIRTUAL_ROOT = "\u0000root"
"""Label of the node on top of every loaded map, neither counted nor a label of the map. No other label holds U+0000."""

ANNOTATION_KEYS = frozenset({"example", "examples", "description"})
"""Keys, in lower case, that hold a note about a node and not nodes: noise of the extraction."""

MAX_STORED_DEPTH = 200
"""Levels of a map that is stored: readers of nested JSON give up on much deeper ones."""


class Tree(TypedDict):
    """A node with what hangs below it, in order. Any dict of this form will do."""

    label: str
    children: list[Tree]


class Shape(NamedTuple):
    """Size of a map without its virtual root: number of nodes, and number of levels (a lone node has 1)."""

    nodes: int
    depth: int


def clean_label(text: str) -> str:
    """Return a label in its normal form: Unicode NFKC, runs of white space as one blank, stripped, case kept.

    U+0000 is taken out and a lone surrogate becomes U+FFFD: every label can be encoded, and none is the virtual root.
    """
    encodable = re.sub("[\ud800-\udfff]", "\ufffd", text.replace("\0", ""))
    return " ".join(unicodedata.normalize("NFKC", encodable).split())


def parse_mindmap(text: str, drop_annotations: bool = False) -> Tree:
    """Return the canonical tree of a map written as JSON text in the dataset's form (see `load_mindmap`).

    Args:
        text: a JSON document. A key that an object repeats gives a node each time.
        drop_annotations: as in `load_mindmap`.

    Raises:
        BadInput: the text is not JSON, is nested deeper than Python's JSON reader goes (about 1,000 levels), or holds
            no label.
    """
    try:
        value = json.loads(text, object_pairs_hook=_Members)
    except RecursionError as error:
        raise BadInput(
            "mind-map: the JSON is nested deeper than its reader goes (about 1,000 levels); hand over the parsed value"
        ) from error
    except ValueError as error:
        raise BadInput(f"mind-map: not JSON ({error}); the text begins with {text[:60]!r}") from error
    return load_mindmap(value, drop_annotations)


def load_mindmap(json_value: object, drop_annotations: bool = False) -> Tree:
    """Return the canonical tree of a map in the dataset's form, under a virtual root.

    Every key of an object becomes a node, in key order, and its value gives the children: `null`, `{}`, `[]` and `""`
    none; a string, number or boolean one leaf with its text; a list each of its items in order. Labels are cleaned
    (`clean_label`); a node without label is dropped and its children move up.

    Args:
        json_value: a parsed JSON value: an object of one or more keys, or a list or string in its place.
        drop_annotations: leave out the keys of `ANNOTATION_KEYS` and all that is below them.

    Raises:
        BadInput: a value that JSON does not know, a container that contains itself, or no labelled node at all.

    Source:
        The maps of ResearchArena (arXiv 2406.10291): nested objects, several top-level keys and string values occur.
    """
    root = Tree(label=VIRTUAL_ROOT, children=[])
    path = _Path()
    stack: list[tuple[object, object, list[Tree], int]] = [(None, json_value, root["children"], 0)]
    while stack:
        key, value, siblings, depth = stack.pop()
        if key is not None:
            siblings = add_label(siblings, _text(key))
        if isinstance(value, dict | list):
            path.enter(depth, cast("object", value))
            members = _members(cast("dict[object, object] | list[Any]", value))
            if drop_annotations:
                members = [(name, below) for name, below in members if not _is_annotation(name)]
            stack.extend((name, below, siblings, depth + 1) for name, below in reversed(members))
        elif value is not None:
            add_label(siblings, _text(value))
    return require_nodes(root)


def load_tree(value: object, label_key: str = "label") -> Tree:
    """Return the canonical tree of a map given as nested nodes, under a virtual root, its labels cleaned.

    Args:
        value: a node `{label_key: str, "children": [node, ...]}` (no children: a leaf), or a list of nodes (a forest).
            A virtual root that is already there is replaced, so loading twice changes nothing.
        label_key: the key that holds a node's label.

    Raises:
        BadInput: a node of another form, a node that contains itself, or no labelled node at all.
    """
    root = Tree(label=VIRTUAL_ROOT, children=[])
    path = _Path()
    forest = cast("list[object]", value) if isinstance(value, list) else [value]
    stack = [(node, root["children"], 0) for node in reversed(forest)]
    while stack:
        node, siblings, depth = stack.pop()
        path.enter(depth, node)
        label, children = _node(node, label_key, leaf_default=[])
        siblings = siblings if label == VIRTUAL_ROOT else add_label(siblings, label)
        stack.extend((child, siblings, depth + 1) for child in reversed(children))
    return require_nodes(root)


def load_any(value: object) -> Tree:
    """Return the canonical tree of a map in whichever form it comes.

    Args:
        value: nested nodes `{"label" or "name": str, "children": [...]}`, the dataset's form (see `load_mindmap`), or
            JSON text of either.

    Raises:
        BadInput: as `parse_mindmap`, `load_mindmap` and `load_tree` say.
    """
    if isinstance(value, str):
        tree = parse_mindmap(value)
        return _from_nodes(json.loads(value)) or tree
    return _from_nodes(value) or load_mindmap(value)


def _from_nodes(value: object) -> Tree | None:
    """Return the tree of nested nodes, or None if the value has another form."""
    if isinstance(value, dict) and isinstance(cast("dict[str, object]", value).get("children"), list):
        for key in ("label", "name"):
            if isinstance(cast("dict[str, object]", value).get(key), str):
                return load_tree(cast("object", value), key)
    return None


class MapAnswer(RootModel[dict[str, JsonValue]]):
    """A mind-map as one JSON object."""

    @model_validator(mode="after")
    def _is_a_map(self) -> MapAnswer:
        load_any(self.root)
        return self

    @property
    def tree(self) -> Tree:
        """The canonical tree."""
        return load_any(self.root)


def dump_tree(tree: Tree) -> str:
    """Return a canonical tree as it is stored: a JSON list of its top nodes, `{"label": ..., "children": [...]}` each.

    Raises:
        BadInput: the map has more than `MAX_STORED_DEPTH` levels.
    """
    depth = tree_shape(tree).depth
    if depth > MAX_STORED_DEPTH:
        raise BadInput(f"mind-map: it has {depth:,} levels, at most {MAX_STORED_DEPTH} can be stored; cut it")
    nodes = tree["children"] if tree["label"] == VIRTUAL_ROOT else [tree]
    return json.dumps(nodes, ensure_ascii=False, separators=(",", ":"))


def parse_tree(text: str) -> Tree:
    """Return the canonical tree that `dump_tree` wrote.

    Raises:
        BadInput: as `load_tree` says.
    """
    return load_tree(json.loads(text))


def walk(tree: Tree) -> Iterator[tuple[str, int]]:
    """Yield (label, depth) of every node, parents before children and in order; the top node has depth 0.

    Labels come as they are and the virtual root is a node like any other: the sequence determines the tree.

    Raises:
        BadInput: a node that is no `{"label": str, "children": list}`, or that contains itself.
    """
    path = _Path()
    stack: list[tuple[object, int]] = [(tree, 0)]
    while stack:
        node, depth = stack.pop()
        label, children = _node(node, "label")
        yield label, depth
        if children:
            path.enter(depth, node)
            stack += [(child, depth + 1) for child in reversed(children)]


def tree_labels(tree: Tree) -> list[str]:
    """Return the distinct labels of a map in the order of first occurrence, virtual root excluded."""
    return list(dict.fromkeys(label for label, _ in walk(tree) if label != VIRTUAL_ROOT))


def tree_shape(tree: Tree) -> Shape:
    """Return the number of nodes and of levels of a map, virtual root excluded."""
    nodes = list(walk(tree))
    virtual = int(nodes[0][0] == VIRTUAL_ROOT)
    return Shape(nodes=len(nodes) - virtual, depth=max(depth for _, depth in nodes) + 1 - virtual)


class _Members(list[tuple[object, object]]):
    """A JSON object as its (key, value) pairs, which keeps keys that are repeated."""


class _Path:
    """The containers from the top down to the current one, so that one that contains itself is noticed."""

    def __init__(self) -> None:
        self._ids: list[int] = []
        self._open: set[int] = set()

    def enter(self, depth: int, container: object) -> None:
        """Step into a container at a depth, leaving all that were at this depth or below it."""
        while len(self._ids) > depth:
            self._open.remove(self._ids.pop())
        if id(container) in self._open:
            raise BadInput(f"mind-map: at depth {depth} stands a node that contains itself; a tree has no cycle")
        self._ids.append(id(container))
        self._open.add(id(container))


def _members(value: dict[object, object] | list[Any]) -> list[tuple[object, object]]:
    """Return the (key, value) pairs of an object, or the items of a list with None for a key."""
    if isinstance(value, dict):
        return list(value.items())
    return value if isinstance(value, _Members) else [(None, item) for item in value]


def _is_annotation(key: object) -> bool:
    return isinstance(key, str) and clean_label(key).lower() in ANNOTATION_KEYS


def _text(value: object) -> str:
    """Return the text of a JSON scalar: of a string itself, else as JSON writes it."""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return json.dumps(value)
    raise BadInput(f"mind-map: {type(value).__name__} is no JSON value; found {value!r:.60}")


def add_label(siblings: list[Tree], text: str) -> list[Tree]:
    """Append a node and return the list for its children; without label they go where the node would."""
    label = clean_label(text)
    if not label:
        return siblings
    node = Tree(label=label, children=[])
    siblings.append(node)
    return node["children"]


def _node(node: object, label_key: str, leaf_default: list[object] | None = None) -> tuple[str, list[object]]:
    """Return label and children of a nested node after a look at its form."""
    if not isinstance(node, dict):
        raise BadInput(f"tree: a node is a dict with {label_key!r} and 'children', found {type(node).__name__}")
    fields = cast("dict[str, object]", node)
    label, children = fields.get(label_key), fields.get("children", leaf_default)
    if not isinstance(label, str):
        raise BadInput(
            f"tree: a node's {label_key!r} must be a string, found {label!r:.60}; its keys: {list(fields)[:5]}"
        )
    if not isinstance(children, list):
        raise BadInput(f"tree: the 'children' of node {label[:60]!r} must be a list, found {type(children).__name__}")
    return label, cast("list[object]", children)


def require_nodes(root: Tree) -> Tree:
    """Return the tree; raise BadInput when no node of it has a label."""
    if not root["children"]:
        raise BadInput("mind-map: no node has a label; an empty map cannot be scored")
    return root
