"""Mind-maps that are given as graphs."""

from typing import Any

from schemas.errors import BadInput
from schemas.mindmap import VIRTUAL_ROOT, Tree, add_label, require_nodes


def from_networkx(graph: Any) -> Tree:
    """Return the canonical tree of a directed networkx graph whose edges run from parent to child.

    Args:
        graph: a forest of one or more roots, which come in the graph's own order, and so do children. A node's label is
            its attribute `label`, or else the node itself.

    Raises:
        BadInput: edges without direction, a node with two parents, a cycle, a label that is no string, or no label.
    """
    if not graph.is_directed():
        raise BadInput(
            "mind-map: the graph's edges have no direction; give a networkx.DiGraph, edges from parent to child"
        )
    children: dict[object, list[object]] = {node: [] for node in graph.nodes}
    roots = dict.fromkeys(children)
    for parent, child in graph.edges():
        children[parent].append(child)
        if child not in roots:
            raise BadInput(f"mind-map: node {child!r} of the graph has two parents; a tree allows one")
        roots.pop(child, None)
    labels: dict[object, object] = {node: data.get("label", node) for node, data in graph.nodes(data=True)}
    root = Tree(label=VIRTUAL_ROOT, children=[])
    stack = [(node, root["children"]) for node in reversed(roots)]
    reached = 0
    while stack:
        node, siblings = stack.pop()
        reached += 1
        label = labels[node]
        if not isinstance(label, str):
            raise BadInput(
                f"mind-map: graph node {node!r} has no text for a label but {label!r}; set its attribute 'label'"
            )
        siblings = add_label(siblings, label)
        stack.extend((child, siblings) for child in reversed(children[node]))
    if reached < len(children):
        raise BadInput(f"mind-map: the graph has a cycle: {len(children) - reached} nodes hang from no root")
    return require_nodes(root)
