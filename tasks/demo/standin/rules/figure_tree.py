"""Returns the tree that pictures of the synthetic release carry as text; the stand-in cannot see pictures."""

import io

import PIL.Image

from schemas.errors import BadInput
from schemas.mindmap import Tree, parse_tree, walk
from tasks.corpus.figures.maps import FigureTree, Topic
from tasks.demo.figures import MINDMAP
from tasks.demo.standin.rule import Asked, answers


@answers("figure_tree")
def figure_tree(asked: Asked) -> FigureTree:
    """Returns the tree's nodes in order; none for any other picture."""
    tree = _carried(asked.images[-1]) if asked.images else None
    if tree is None:
        return FigureTree(shows_tree=False, nodes=[])
    nodes: list[Topic] = []
    path: list[int] = []
    for place, (label, depth) in enumerate(walk(tree)):
        del path[depth:]
        if depth:  # the virtual root is no topic
            nodes.append(Topic(id=place, label=label, parent=path[-1] if depth > 1 else None))
        path.append(place)
    return FigureTree(shows_tree=True, nodes=nodes)


def _carried(data: bytes) -> Tree | None:
    try:
        with PIL.Image.open(io.BytesIO(data)) as picture:
            return parse_tree(str(picture.info[MINDMAP]))
    except (OSError, KeyError, ValueError, BadInput):
        return None
