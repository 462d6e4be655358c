"""Tree edit distance and tree semantic distance between mind-maps: exact on any shape, and fast.

Both distances are the dynamic programme of Zhang and Shasha (SIAM J. Comput. 18(6), 1989) with costs of 0 and 1. It
runs over the trees or over their mirror images, whichever is cheaper: the distance is the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from schemas.errors import BadInput, MissingDependency
from schemas.mindmap import VIRTUAL_ROOT, Tree, tree_shape, walk

try:
    from numba import njit
except ImportError as error:
    raise MissingDependency("tree distances need numba: pip install 'research-arena[organize]'") from error

SENSITIVITY = (0.5, 0.6, 0.7, 0.8, 0.9)
"""Thresholds whose distances are printed beside every tree semantic distance."""

MAX_CELLS = 2**28
"""Pairs of trees with more cells (nodes times nodes; these are 3 GB of tables) are refused."""

Ints: TypeAlias = npt.NDArray[np.int32]
Bools: TypeAlias = npt.NDArray[np.bool_]


class _Flat(NamedTuple):
    """A tree in pre-order, where a subtree is a range: the nodes' labels, depths and subtree sizes, (n,) each."""

    labels: list[str]
    depth: Ints
    size: Ints


class _Side(NamedTuple):
    """A tree in post-order: the nodes' pre-order numbers, their subtrees' first leaves, keyroots, rows of work."""

    order: Ints
    leaf: Ints
    keyroots: Ints
    work: int


def tree_edit_distance(t1: Tree, t2: Tree) -> int:
    """Return the least number of node insertions, deletions and relabellings between two ordered trees.

    Relabelling is free between equal strings. Time is O(n1 n2 min(depth1, leaves1) min(depth2, leaves2)), memory about
    11 n1 n2 bytes: 275 MB for two trees of 5,000 nodes.

    Args:
        t1: a tree `{"label": str, "children": [tree, ...]}`; its labels are taken as they are.
        t2: another one.

    Returns:
        An edit count between |n1 - n2| and n1 + n2.

    Raises:
        BadInput: a node of another form, a node that contains itself, or more than `MAX_CELLS` pairs of nodes.

    Source:
        Zhang and Shasha 1989; reference implementations zss and apted with unit costs.
    """
    first, second = _flatten_pair(t1, t2)
    return _matched_distance(first, second, _equal(first.labels, second.labels))


def tree_semantic_distance(
    t1: Tree,
    t2: Tree,
    labels1: Sequence[str],
    labels2: Sequence[str],
    similarity: npt.ArrayLike,
    threshold: float = 0.8,
    *,
    inclusive: bool = False,
    free_ops: bool = False,
    aligned: bool = False,
) -> int:
    """Return the tree edit distance in which relabelling is also free between labels more similar than a threshold.

    Args:
        t1: the gold tree, `{"label": str, "children": [tree, ...]}`.
        t2: the predicted tree.
        labels1: every label of `t1`, and others if you like; not the virtual root's, which matches itself alone.
        labels2: the same for `t2`.
        similarity: finite cosines (len(labels1), len(labels2)), in the order of the two lists.
        threshold: labels match above this number, and whenever they are equal.
        inclusive: labels match at this number as well.
        free_ops: deleting or inserting a node is free too if its label matches any label of the other tree.
        aligned: give an upper bound of the unordered distance instead: siblings of `t2` are put in the order of their
            best counterparts in `t1`, and the smaller distance of the two orders is taken. Not symmetric.

    Returns:
        An edit count, at most `tree_edit_distance`; without `free_ops` at least |n1 - n2|; without `aligned` it never
        grows as the threshold falls. It is no metric: 0 does not mean that the trees are equal.

    Raises:
        BadInput: as in `tree_edit_distance`; a label that is not listed; a similarity of another shape or not finite.

    Source:
        Tree Semantic Distance of ResearchArena (arXiv 2406.10291).

    Deviations:
        The paper's threshold is not known: 0.8 is our choice, and `threshold_sensitivity` goes with it. Its wording
        allows any edit to be free; here only relabelling is by default, as `free_ops` rewards repetition.
    """
    options = {"inclusive": inclusive, "free_ops": free_ops, "aligned": aligned}
    return threshold_sensitivity(t1, t2, labels1, labels2, similarity, (threshold,), **options)[threshold]


def threshold_sensitivity(
    t1: Tree,
    t2: Tree,
    labels1: Sequence[str],
    labels2: Sequence[str],
    similarity: npt.ArrayLike,
    thresholds: Iterable[float] = SENSITIVITY,
    *,
    inclusive: bool = False,
    free_ops: bool = False,
    aligned: bool = False,
) -> dict[float, int]:
    """Return `tree_semantic_distance` at each threshold; the trees are read once, and equal matchings are solved once.

    Args and errors are those of `tree_semantic_distance`.
    """
    first, second = _flatten_pair(t1, t2)
    rows, columns = _positions(first, labels1), _positions(second, labels2)
    cosine = _checked_similarity(similarity, (len(labels1), len(labels2)))
    equal = _equal([*labels1, VIRTUAL_ROOT], [*labels2, VIRTUAL_ROOT])
    solved: dict[bytes, int] = {}
    row: dict[float, int] = {}
    for threshold in thresholds:
        if not math.isfinite(threshold):
            raise BadInput(f"tree semantic distance: the threshold must be a finite number, found {threshold}")
        match = equal.copy()
        match[:-1, :-1] |= (cosine >= threshold) if inclusive else (cosine > threshold)
        key = np.packbits(match).tobytes()
        if key not in solved:
            nodes = match[np.ix_(rows, columns)]
            solved[key] = _matched_distance(first, second, nodes, free_ops=free_ops, aligned=aligned)
        row[threshold] = solved[key]
    return row


def normalised_distance(distance: int, t1: Tree, t2: Tree) -> float:
    """Return an edit count as a share of the nodes of both maps, virtual roots excluded: from 0 (no edit) to 1."""
    nodes = tree_shape(t1).nodes + tree_shape(t2).nodes
    return distance / nodes if nodes else 0.0


def _flatten_pair(t1: Tree, t2: Tree) -> tuple[_Flat, _Flat]:
    first, second = _flatten(t1), _flatten(t2)
    n1, n2 = len(first.labels), len(second.labels)
    if n1 * n2 > MAX_CELLS:
        raise BadInput(f"tree distance: {n1:,} by {n2:,} nodes are over {MAX_CELLS:,} cells; prune the larger tree")
    return first, second


def _flatten(tree: Tree) -> _Flat:
    labels: list[str] = []
    depths: list[int] = []
    parents: list[int] = []
    path: list[int] = []
    for number, (label, depth) in enumerate(walk(tree)):
        del path[depth:]
        parents.append(path[-1] if path else -1)
        path.append(number)
        labels.append(label)
        depths.append(depth)
    sizes = [1] * len(labels)
    for number in range(len(labels) - 1, 0, -1):
        sizes[parents[number]] += sizes[number]
    return _Flat(labels, np.array(depths, np.int32), np.array(sizes, np.int32))


def _equal(labels1: Sequence[str], labels2: Sequence[str]) -> Bools:
    ids: dict[str, int] = {}
    rows, columns = (np.array([ids.setdefault(label, len(ids)) for label in side]) for side in (labels1, labels2))
    return rows[:, None] == columns[None, :]


def _positions(flat: _Flat, labels: Sequence[str]) -> Ints:
    """Return where each node's label stands in the list; the virtual root stands behind its end."""
    places = {label: place for place, label in reversed(list(enumerate(labels)))} | {VIRTUAL_ROOT: len(labels)}
    missing = [label for label in flat.labels if label not in places]
    if missing:
        raise BadInput(
            f"tree semantic distance: {missing[0][:60]!r} and {len(missing) - 1} more labels of a tree are not "
            f"among the {len(labels)} given with the similarity; list every label of both trees"
        )
    return np.array([places[label] for label in flat.labels], np.int32)


def _checked_similarity(similarity: npt.ArrayLike, shape: tuple[int, int]) -> npt.NDArray[np.float64]:
    try:
        cosine = np.asarray(similarity, np.float64)
    except (TypeError, ValueError) as error:
        raise BadInput(f"tree semantic distance: the similarity is no array of numbers: {error}") from error
    if cosine.shape != shape:
        raise BadInput(
            f"tree semantic distance: the similarity has shape {cosine.shape}, expected {shape}: a row for each of the "
            "first labels and a column for each of the second"
        )
    if not np.isfinite(cosine).all():
        row, column = np.argwhere(~np.isfinite(cosine))[0]
        raise BadInput(
            f"tree semantic distance: the similarity at {row}, {column} is {cosine[row, column]}; give finite cosines, "
            "look at the embeddings of these two labels"
        )
    return cosine


def _matched_distance(
    first: _Flat, second: _Flat, match: Bools, *, free_ops: bool = False, aligned: bool = False
) -> int:
    """Return the distance in which nodes that match are relabelled for nothing; `match` is (n1, n2), in pre-order."""
    delete, insert = np.ones(match.shape[0], np.bool_), np.ones(match.shape[1], np.bool_)
    if free_ops:
        delete, insert = np.logical_not(match.any(axis=1)), np.logical_not(match.any(axis=0))
    distance = _distance(first, second, ~match, delete, insert)
    if aligned:
        order = _aligned_order(first, second, match)
        moved = _Flat([second.labels[number] for number in order], second.depth[order], second.size[order])
        distance = min(distance, _distance(first, moved, ~match[:, order], delete, insert[order]))
    return distance


def _distance(first: _Flat, second: _Flat, relabel: Bools, delete: Bools, insert: Bools) -> int:
    """Return the distance of two trees; the edits that cost 1 are given in pre-order: (n1, n2), (n1,), (n2,)."""
    sides = [(_side(first, mirrored), _side(second, mirrored)) for mirrored in (False, True)]
    one, two = min(sides, key=lambda pair: pair[0].work * pair[1].work)
    nodes1 = (one.leaf, one.keyroots, delete[one.order])
    nodes2 = (two.leaf, two.keyroots, insert[two.order])
    subtree = _zhang_shasha(nodes1, nodes2, np.ascontiguousarray(relabel[np.ix_(one.order, two.order)]))
    return int(subtree[-1, -1])


def _side(flat: _Flat, mirrored: bool) -> _Side:
    """Number a tree in post-order; the mirrored tree's post-order is the pre-order backwards."""
    count = len(flat.labels)
    number = np.arange(count, dtype=np.int32)
    post = number[::-1] if mirrored else number + flat.size - 1 - flat.depth
    order = np.argsort(post).astype(np.int32)
    leaf = (post - flat.size + 1)[order]
    _, from_end = np.unique(leaf[::-1], return_index=True)
    keyroots = np.sort(count - 1 - from_end).astype(np.int32)
    return _Side(order, leaf, keyroots, work=int(flat.size[order][keyroots].sum()))


@njit(cache=True)
def _zhang_shasha(one: tuple[Ints, Ints, Bools], two: tuple[Ints, Ints, Bools], relabel: Bools) -> Ints:
    """Return the distances (n1, n2) of all subtrees of two trees (first leaf, keyroots, edit's cost), in post-order.

    `subtree[i, j]` is the distance of the subtrees at i and j, `forest[x, y]` that of the first x nodes of a keyroot's
    subtree and the first y of another's.
    """
    leaf1, keyroots1, delete = one
    leaf2, keyroots2, insert = two
    n1, n2 = relabel.shape
    subtree = np.empty((n1, n2), np.int32)
    forest = np.zeros((n1 + 1, n2 + 1), np.int32)
    for k1 in keyroots1:
        start1 = leaf1[k1]
        for k2 in keyroots2:
            start2 = leaf2[k2]
            for x in range(k1 - start1 + 1):
                forest[x + 1, 0] = forest[x, 0] + delete[start1 + x]
            for y in range(k2 - start2 + 1):
                forest[0, y + 1] = forest[0, y] + insert[start2 + y]
            for x in range(k1 - start1 + 1):
                i = start1 + x
                before1 = leaf1[i] - start1
                for y in range(k2 - start2 + 1):
                    j = start2 + y
                    before2 = leaf2[j] - start2
                    best = min(forest[x, y + 1] + delete[i], forest[x + 1, y] + insert[j])
                    if before1 == 0 and before2 == 0:
                        best = min(best, forest[x, y] + relabel[i, j])
                        subtree[i, j] = best
                    else:
                        best = min(best, forest[before1, before2] + subtree[i, j])
                    forest[x + 1, y + 1] = best
    return subtree


def _aligned_order(first: _Flat, second: _Flat, match: Bools) -> list[int]:
    """Return the second tree's nodes in a pre-order whose siblings follow their best counterparts in the first tree.

    From the roots down, the children of two counterparts are paired so that as many nodes as possible find a match in
    the other subtree of the pair.
    """
    from scipy.optimize import linear_sum_assignment

    rank = list(range(len(second.labels)))
    pairs = [(0, 0)]
    while pairs:
        one, two = pairs.pop()
        children1, children2 = _children(first, one), _children(second, two)
        if not children1 or not children2:
            continue
        below = match[one + 1 : one + first.size[one], two + 1 : two + second.size[two]]
        starts1, starts2 = np.subtract(children1, one + 1), np.subtract(children2, two + 1)
        found1 = np.add.reduceat(np.maximum.reduceat(below, starts2, axis=1), starts1, axis=0, dtype=np.int32)
        found2 = np.add.reduceat(np.maximum.reduceat(below, starts1, axis=0), starts2, axis=1, dtype=np.int32)
        gain = found1 + found2 + below[np.ix_(starts1, starts2)]
        for place, child in enumerate(children2):
            rank[child] = len(children1) + place
        for row, column in zip(*linear_sum_assignment(gain, maximize=True), strict=True):
            rank[children2[column]] = row
            pairs.append((children1[row], children2[column]))
    order: list[int] = []
    stack = [0]
    while stack:
        order.append(stack.pop())
        stack.extend(sorted(_children(second, order[-1]), key=rank.__getitem__, reverse=True))
    return order


def _children(flat: _Flat, node: int) -> list[int]:
    children: list[int] = []
    child, end = node + 1, node + int(flat.size[node])
    while child < end:
        children.append(child)
        child += int(flat.size[child])
    return children
