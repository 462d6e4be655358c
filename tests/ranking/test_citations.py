"""Citation scores against networkx and plain counts, on random graphs around a search's first hits."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from schemas.identifiers import CorpusId
from schemas.topic import Hit, Topic
from tasks.ranking.expansion import citations
from tasks.ranking.expansion.citations import (
    Neighbourhood,
    cocitation_scores,
    coupling_scores,
    look_around,
    personalised_pagerank,
    seed_weights,
    step_scores,
)
from tasks.retrieval.desk import ResearchDesk
from tests.contract.test_baselines import TOPIC
from tests.ranking.baselines.conftest import Shelf

PAPERS = range(10, 50)


def random_edges(seed: int) -> list[tuple[int, int]]:
    rng = np.random.default_rng(seed)
    return sorted({(int(a), int(b)) for a, b in rng.integers(10, 50, (90, 2)) if a != b})


@pytest.fixture(scope="module", params=[1, 2, 3])
def case(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[ResearchDesk, nx.DiGraph, dict[int, float]]:
    edges = random_edges(request.param)
    shelf = Shelf(tmp_path_factory.mktemp("graph"), dict.fromkeys(PAPERS, ("Seabird", None)), cites=edges)
    graph = nx.DiGraph(edges)
    graph.add_nodes_from(PAPERS)
    seeds = seed_weights([Hit(CorpusId(n), 1.0) for n in (12, 30, 41)])
    return shelf.desk(TOPIC, "bm25"), graph, seeds


def by_paper(around: Neighbourhood, scores: np.ndarray) -> dict[int, float]:
    return {int(paper): float(score) for paper, score in zip(around.ids, scores, strict=True) if score > 1e-12}


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_a_neighbourhood_is_that_of_networkx(case: Any, hops: int) -> None:
    desk, graph, seeds = case
    around = look_around(desk, seeds, hops)
    distance = nx.multi_source_dijkstra_path_length(graph.to_undirected(), set(seeds))
    near = {paper for paper, far in distance.items() if far <= hops}
    assert set(around.ids.tolist()) == near
    rows, columns = around.cites.nonzero()
    seen = {(int(around.ids[a]), int(around.ids[b])) for a, b in zip(rows, columns, strict=True)}
    inner = {paper for paper, far in distance.items() if far < hops}
    assert seen == {(a, b) for a, b in graph.edges if a in inner or b in inner}


def test_personalised_pagerank_is_that_of_networkx(case: Any) -> None:
    desk, graph, seeds = case
    around = look_around(desk, seeds, 10)
    reached = graph.subgraph(around.ids.tolist()).to_undirected()
    expected = nx.pagerank(reached, alpha=0.85, personalization=seeds, dangling=seeds, tol=1e-12, max_iter=1000)
    found = by_paper(around, personalised_pagerank(around))
    assert found == pytest.approx({paper: score for paper, score in expected.items() if score > 1e-12}, abs=1e-8)


def test_co_citation_and_coupling_are_plain_counts(case: Any) -> None:
    """Each citing paper shares one vote among its references, each cited paper one among those citing it."""
    desk, graph, seeds = case
    around = look_around(desk, seeds, 2)
    directions: list[tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]] = [
        (cocitation_scores, graph.predecessors, graph.successors),
        (coupling_scores, graph.successors, graph.predecessors),
    ]
    for score, between, others in directions:
        expected: dict[int, float] = {}
        for seed, weight in seeds.items():
            for link in between(seed):
                members = list(others(link))
                for paper in members:
                    if paper != seed:
                        expected[paper] = expected.get(paper, 0.0) + weight / len(members)
        assert by_paper(around, score(around)) == pytest.approx(expected)


def test_steps_are_sums_over_links(case: Any) -> None:
    desk, graph, seeds = case
    around, both = look_around(desk, seeds, 2), graph.to_undirected()
    first = {paper: sum(seeds.get(n, 0) for n in both[paper]) for paper in both}
    second = {paper: sum(0.5 * first[n] / both.degree[n] for n in both[paper]) for paper in both}
    expected = {paper: seeds.get(paper, 0) + first[paper] + second[paper] for paper in both}
    assert by_paper(around, step_scores(around, 2)) == pytest.approx({p: s for p, s in expected.items() if s > 1e-12})


def test_hubs_and_neighbourhoods_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edges = [(n, 10) for n in range(11, 31)] + [(40, 10), (40, 41)]
    shelf = Shelf(tmp_path, dict.fromkeys(PAPERS, ("Seabird", None)), cites=edges)
    topic: Topic = TOPIC
    monkeypatch.setattr(citations, "HUB", 20)
    assert look_around(shelf.desk(topic, "bm25"), {10: 1.0}, 1).ids.tolist() == [10]
    assert look_around(shelf.desk(topic, "bm25"), {40: 1.0}, 2).ids.tolist() == [10, 40, 41]
    monkeypatch.setattr(citations, "HUB", 1000)
    monkeypatch.setattr(citations, "MOST_PAPERS", 22)
    assert len(look_around(shelf.desk(topic, "bm25"), {10: 1.0}, 2).ids) == 22, "the second hop would reach 41 as well"
