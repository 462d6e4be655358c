"""The citation graph around the first hits of a search, as far as the topic may see it.

Memory: the desk's graph is memory-mapped, 8 bytes per edge and 24 per document, so at 12 million documents only the
pages of the papers that are looked up are read. What is computed here is computed on the papers around the seeds alone:
at most `MOST_PAPERS` of them, whatever the size of the corpus.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, diags_array

from schemas.identifiers import CorpusId
from schemas.topic import Hit
from tasks.retrieval.desk import ResearchDesk

MOST_PAPERS = 20_000
"""Papers of a neighbourhood; when one hop more would exceed it, the hop is left out."""

HUB = 1_000
"""Papers with more neighbours in a direction say little about any of them; those neighbours are left out."""

ITERATIONS, TOLERANCE = 100, 1e-10


class Neighbourhood(NamedTuple):
    """Papers around some seeds.

    Attributes:
        ids: `(n,) int64`, ascending corpus_ids.
        cites: `(n, n)` sparse, 1 where the paper of the row cites that of the column.
        restart: `(n,)`, weights of the seeds, which sum to 1; 0 for other papers.
    """

    ids: NDArray[np.int64]
    cites: Any
    restart: NDArray[np.float64]

    def within(self, ids: Sequence[int]) -> "Neighbourhood":
        """Returns these papers alone, with the edges among them."""
        rows = np.flatnonzero(np.isin(self.ids, ids))
        return Neighbourhood(self.ids[rows], self.cites[rows][:, rows], self.restart[rows])

    def links(self) -> NDArray[np.int64]:
        """Returns the number of seeds that each paper cites or is cited by, `(n,)`."""
        both = (self.cites + self.cites.T).minimum(1)
        return np.asarray(both @ (self.restart > 0).astype(np.int64)).astype(np.int64)

    def cited(self, hit: Hit) -> bool:
        """Returns whether a paper of the neighbourhood cites this one."""
        return bool(self.cites[:, [int(np.searchsorted(self.ids, hit.corpus_id))]].sum())

    def ranked(self, scores: NDArray[np.float64]) -> list[Hit]:
        """Returns the papers with a score > 0, best first; ties by ascending id."""
        order = [row for row in np.lexsort((self.ids, -scores)).tolist() if scores[row] > 0]
        return [Hit(CorpusId(int(self.ids[row])), float(scores[row])) for row in order]


def seed_weights(hits: Sequence[Hit], k: float = 60) -> dict[int, float]:
    """Returns the weight of each hit by its rank, as in reciprocal rank fusion; weights sum to 1."""
    weights = {int(hit.corpus_id): 1 / (k + rank) for rank, hit in enumerate(hits, 1)}
    total = sum(weights.values())
    return {corpus_id: weight / total for corpus_id, weight in weights.items()}


def look_around(desk: ResearchDesk, seeds: Mapping[int, float], hops: int) -> Neighbourhood:
    """Returns the papers within some hops of the seeds, in both directions, and all edges that were seen.

    Edges are those that the topic may see: both papers were published before its horizon, and neither is a survey.

    Args:
        desk: The topic's desk; without a citation graph, the neighbourhood is the seeds.
        seeds: Weights of the papers to begin with.
        hops: Number of steps, >= 1.
    """
    edges: set[tuple[int, int]] = set()
    known, frontier = set(seeds), sorted(seeds)
    for _ in range(hops if desk.has_graph else 0):
        found: set[tuple[int, int]] = set()
        for paper in frontier:
            references, citations = desk.references(paper, HUB), desk.citations(paper, HUB)
            found |= {(paper, int(other)) for other in references.papers if references.total <= HUB}
            found |= {(int(other), paper) for other in citations.papers if citations.total <= HUB}
        reached = {paper for edge in found for paper in edge}
        if len(known | reached) > MOST_PAPERS:
            break
        edges |= found
        frontier = sorted(reached - known)
        known |= reached
    ids = np.array(sorted(known), np.int64)
    rows = np.searchsorted(ids, np.array(sorted(edges), np.int64).reshape(-1, 2))
    cites = csr_matrix((np.ones(len(rows)), (rows[:, 0], rows[:, 1])), shape=(len(ids), len(ids)))
    return Neighbourhood(ids, cites, np.array([seeds.get(int(paper), 0.0) for paper in ids]))


def _divided(matrix: Any) -> Any:
    """Returns a matrix with rows that sum to 1, or to 0 where they are empty."""
    totals = np.asarray(matrix.sum(axis=1)).ravel()
    return diags_array(np.divide(1.0, totals, out=np.zeros_like(totals), where=totals > 0)) @ matrix


def step_scores(around: Neighbourhood, hops: int, damping: float = 0.5) -> NDArray[np.float64]:
    """Returns the weights of the seeds spread over so many steps along edges, in both directions.

    A paper gets the weights of the seeds that it cites or that cite it; a seed keeps its own. Each further step counts
    `damping` times as much, and then every paper shares its weight evenly among its neighbours.
    """
    both = (around.cites + around.cites.T).minimum(1)
    spread = both.T @ around.restart
    scores = around.restart + spread
    for _ in range(hops - 1):
        spread = damping * (_divided(both).T @ spread)
        scores = scores + spread
    return scores


def cocitation_scores(around: Neighbourhood) -> NDArray[np.float64]:
    """Returns how often papers are cited together with the seeds; a citing paper shares one vote among its references.

    Source: Small, Co-citation in the scientific literature, 1973; fractional counting as in Small and Sweeney, 1985.
    """
    return _shared_votes(around.cites, around.restart)


def coupling_scores(around: Neighbourhood) -> NDArray[np.float64]:
    """Returns how many references papers share with the seeds; a cited paper shares one vote among those citing it.

    Source: Kessler, Bibliographic coupling between scientific papers, 1963; fractional counting as for co-citation.
    """
    return _shared_votes(around.cites.T.tocsr(), around.restart)


def _shared_votes(lists: Any, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the sum over lists of the weights of the other papers in a list, divided by the list's length.

    Args:
        lists: `(n_lists, n)` sparse, 1 where a list has a paper.
        weights: Of the papers, `(n,)`.
    """
    divided = _divided(lists)
    own = np.asarray(divided.sum(axis=0)).ravel() * weights
    return np.maximum(divided.T @ (lists @ weights) - own, 0.0)


def personalised_pagerank(around: Neighbourhood, damping: float = 0.85) -> NDArray[np.float64]:
    """Returns personalised PageRank over the edges in both directions, `(n,)`, sum 1; walks restart at the seeds.

    Source: Page et al., 1999; Haveliwala, Topic-sensitive PageRank, 2002. A paper without edges restarts the walk.
    """
    both = (around.cites + around.cites.T).minimum(1)
    step = _divided(both).T.tocsr()
    alone = np.asarray(both.sum(axis=1)).ravel() == 0
    scores = around.restart
    for _ in range(ITERATIONS):
        moved = damping * (step @ scores + scores[alone].sum() * around.restart) + (1 - damping) * around.restart
        if np.abs(moved - scores).sum() < TOLERANCE * len(scores):
            return moved
        scores = moved
    return scores
