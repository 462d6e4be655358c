"""Builds the dendrogram of the references' embeddings; each node is labelled by its most characteristic n-gram."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import linkage
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import TfidfVectorizer

from schemas.mindmap import Tree, load_tree
from tasks.organization.builder import Material, Organized, References, builder, lone_node

DEPTH = 5
"""Levels of `clustering_shallow`: what mind-maps have (mostly 3 to 7)."""


class _Dendrogram(NamedTuple):
    """Nodes 0 to n - 1 are references; node n + i joins the pair `merges[i]`; the last one is the root."""

    leaves: int
    merges: NDArray[np.intp]

    def children(self, node: int) -> list[int]:
        """Returns the two nodes that a node joins, the earlier one first; nothing for a leaf."""
        return sorted(self.merges[node - self.leaves].tolist()) if node >= self.leaves else []


class _Pending(NamedTuple):
    """A node of the dendrogram to add to the tree: its siblings there, the label above it, and its level."""

    number: int
    siblings: list[Tree]
    above: str
    level: int


@builder(
    "clustering", "Ward's dendrogram of the references, whole, with TF-IDF labels.", needs=("references", "vectors")
)
def clustering(material: Material) -> Organized:
    """Returns the whole binary dendrogram: n leaves, n - 1 inner nodes.

    Source:
        Baseline Clustering of ResearchArena (arXiv 2406.10291): Ward linkage, n-grams of 1 to 3 words by TF-IDF.

    Deviates:
        The paper gives only the n-gram range. Here one TF-IDF is fitted on the topic's references (title and abstract,
        lower case, English stop words, smooth idf, rows of norm 1); a node's label is the n-gram with the highest mean
        over its members, of equal ones the longest, then the first in the alphabet.
    """
    return Organized(_build(material))


@builder(
    "clustering_collapse",
    "As clustering; a node that repeats its parent's label is merged into it.",
    needs=("references", "vectors"),
)
def clustering_collapse(material: Material) -> Organized:
    """Returns the dendrogram without repeated labels along a branch: children of a merged node move up."""
    return Organized(_build(material, collapse=True))


@builder("clustering_shallow", f"As clustering, cut at {DEPTH} levels.", needs=("references", "vectors"))
def clustering_shallow(material: Material) -> Organized:
    """Returns the upper levels of the dendrogram; clusters at the cut become leaves."""
    return Organized(_build(material, depth=DEPTH))


def _build(material: Material, *, collapse: bool = False, depth: int | None = None) -> Tree:
    references = material.references
    if not references.ids:
        return lone_node(material.topic)
    dendrogram = _join(references.vectors)
    labels = _labels(references, dendrogram, material.topic.title)
    top: list[Tree] = []
    stack = [_Pending(len(labels) - 1, top, "", 1)]
    while stack:
        number, siblings, above, level = stack.pop()
        label, below = labels[number], level
        if not (collapse and label == above):
            siblings.append(Tree(label=label, children=[]))
            siblings, below = siblings[-1]["children"], level + 1
        if depth is None or below <= depth:
            stack.extend(_Pending(child, siblings, label, below) for child in reversed(dendrogram.children(number)))
    return load_tree(top)


def _join(vectors: NDArray[np.float32]) -> _Dendrogram:
    n = len(vectors)
    if n == 1:
        return _Dendrogram(1, np.empty((0, 2), np.intp))
    return _Dendrogram(n, linkage(vectors.astype(np.float64), "ward")[:, :2].astype(np.intp))


def _labels(references: References, dendrogram: _Dendrogram, topic_title: str) -> list[str]:
    """Returns a label per node of the dendrogram: the first title among members without any word, or the topic's."""
    weights, terms = _weigh(references)
    member = _membership(dendrogram)
    sums = (member @ weights).tocsr() if terms else csr_matrix((member.shape[0], 0))
    labels: list[str] = []
    for node in range(member.shape[0]):
        start, end = sums.indptr[node : node + 2]
        values = sums.data[start:end]
        if values.size and values.max() > 0:
            labels.append(terms[int(sums.indices[start:end][values == values.max()].min())])
        else:
            titles = (references.titles[i].strip() for i in sorted(member[[node]].indices))
            labels.append(next(filter(None, titles), topic_title))
    return labels


def _weigh(references: References) -> tuple[Any, Sequence[str]]:
    """Returns TF-IDF weights `(n, terms)` and the terms: longer n-grams first, then by the alphabet."""
    texts = [f"{title} {abstract}" for title, abstract in zip(references.titles, references.abstracts, strict=True)]
    vectorizer = TfidfVectorizer(stop_words="english", ngram_range=(1, 3))
    try:
        weights = vectorizer.fit_transform(texts)
    except ValueError:  # no word but stop words in any text
        return csr_matrix((len(texts), 0)), []
    found = vectorizer.get_feature_names_out()
    order = sorted(range(len(found)), key=lambda place: (-found[place].count(" "), found[place]))
    return weights[:, order], [found[place] for place in order]


def _membership(dendrogram: _Dendrogram) -> Any:
    """Returns which references each node holds, `(nodes, n)` of 0 and 1."""
    members: list[list[int]] = [[leaf] for leaf in range(dendrogram.leaves)]
    for one, other in dendrogram.merges.tolist():
        members.append(members[one] + members[other])
    pointers = np.cumsum([0, *map(len, members)])
    columns = np.concatenate(members)
    return csr_matrix((np.ones(len(columns)), columns, pointers), shape=(len(members), dendrogram.leaves))
