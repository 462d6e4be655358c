"""Citation lookups on an edition whose citations follow a rule: exact for every topic and document."""

import numpy as np
import pytest

from flows.pipeline.machine import Machine
from flows.pipeline.release_files import open_files
from flows.pipeline.walk import Pipeline
from schemas.errors import BadInput
from schemas.manifest import Ref
from schemas.settings import CorpusSettings, IndexSettings, Resources
from schemas.tables.citation_records import CITATION_RECORDS
from schemas.topic import Topic
from tasks.corpus.edges import EdgeSettings, edges
from tasks.demo.papers import FIRST_ID, ID_STEP, planted_references
from tasks.demo.release import SyntheticSettings, write_release
from tasks.ranking.answers import answer_topic
from tasks.ranking.baseline import Kit, System, all_baselines
from tasks.ranking.baselines.expansion import CitationExpansionSettings, expand_along_citations
from tasks.ranking.evaluated_topics import evaluated_topics, read_qrels
from tasks.ranking.expansion.citations import (
    cocitation_scores,
    coupling_scores,
    personalised_pagerank,
    step_scores,
)
from tasks.ranking.expansion.graph_search import GraphSettings, Score, search_graph
from tasks.retrieval.backend import SearchBackend, open_backend
from tasks.store.editions import Editions
from tasks.store.store import Request, Store
from tests.flows.conftest import direct
from tests.published import publish

PAPERS = 240


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store with the edition `planted`."""
    folder = tmp_path_factory.mktemp("planted")
    machine = Machine(root=folder / "store", releases=folder / "releases", workers=1)
    write_release(machine.releases, SyntheticSettings(papers=PAPERS, planted=True, files=1))
    store = Store(machine.root)
    pipeline = Pipeline(store, "planted", direct(store)).until("bm25")
    pipeline.build_corpus(CorpusSettings(buckets=2), open_files(machine, None))
    pipeline.build_indexes(IndexSettings(dense_fields=()))
    return store


def open_planted(store: Store, edges: Ref | None = None) -> SearchBackend:
    """Opens the edition with its own edges, or with others."""
    slots = Editions(store).load("planted").slots
    names = {"documents": "documents", "surveys": "surveys", "edges": "edges", "bm25": "bm25/abstract"}
    refs = {name: slots[slot] for name, slot in names.items()} | ({"edges": edges} if edges else {})
    return open_backend("bm25", {name: store.open(ref) for name, ref in refs.items()}, Resources())


def planted_topics(store: Store) -> list[Topic]:
    topics = evaluated_topics(store.open(Editions(store).load("planted").slots["topics"]))
    return [Topic(*row) for row in topics.select("topic_id", "title", "horizon").iter_rows()]


def recall(store: Store, backend: SearchBackend, system: System) -> float:
    """Returns a system's mean recall among as many papers as are relevant."""
    qrels = read_qrels(store.open(Editions(store).load("planted").slots["topics"]))
    found: list[float] = []
    for topic in planted_topics(store):
        relevant = qrels[topic.topic_id].keys()
        answer = answer_topic(system, topic, Kit(backend.desk(topic), len(relevant), seed=1))
        assert answer.outcome == "scored", answer.note
        found.append(len({hit.corpus_id for hit in answer.hits} & relevant) / len(relevant))
    return float(np.mean(found))


def along_citations(hops: int, score: Score) -> System:
    """Returns a graph baseline for a corpus of 240 papers: fifty seeds would be a quarter of it."""
    return lambda topic, kit: search_graph(topic, kit, GraphSettings(seeds=5, hops=hops), score)


FEW = CitationExpansionSettings(seeds=5, linked=1, citations=1)
SYSTEMS: dict[str, tuple[System, str]] = {
    "one_hop": (along_citations(1, lambda around: step_scores(around, 1)), "subject"),
    "two_hops": (along_citations(2, lambda around: step_scores(around, 2)), "subject"),
    "cocitation": (along_citations(2, cocitation_scores), "subject"),
    "coupling": (along_citations(2, coupling_scores), "subject"),
    "pagerank": (along_citations(2, personalised_pagerank), "subject"),
    "expansion": (lambda topic, kit: expand_along_citations(topic, kit, FEW), "expanded_subject"),
}
"""Systems that look for papers along citations, each with the system that does without."""


@pytest.mark.parametrize("name", SYSTEMS)
def test_citations_find_what_no_word_of_the_title_does(name: str, store: Store) -> None:
    """Every other paper is written in foreign words, and cites and is cited by the papers of its own area."""
    backend, (system, text) = open_planted(store), SYSTEMS[name]
    assert recall(store, backend, system) > recall(store, backend, all_baselines()[text].system) + 0.02


def test_citations_that_say_nothing_do_not_help(store: Store) -> None:
    """The same edges between other papers: each id is exchanged for a random one."""
    slots = Editions(store).load("planted").slots
    ids = store.open(slots["documents"]).table(columns=["corpus_id"])["corpus_id"].to_pylist()
    exchanged = dict(zip(ids, np.random.default_rng(1).permutation(ids).tolist(), strict=True))
    records = store.open(slots["citation_records"]).table().to_pylist()
    for record in records:
        for end in ("citing_corpus_id", "cited_corpus_id"):
            record[end] = exchanged.get(record[end], record[end])
    given = publish(store, "exchanged", {"part": (CITATION_RECORDS, records)})
    made = store.build(Request(edges, EdgeSettings(), {"documents": slots["documents"], "citation_records": given}))
    backend = open_planted(store, made.ref)
    for system, text in SYSTEMS.values():
        assert recall(store, backend, system) <= recall(store, backend, all_baselines()[text].system)


def test_planted_citations_are_found_exactly(store: Store) -> None:
    slots = Editions(store).load("planted").slots
    backend = open_planted(store)
    dates = {row["corpus_id"]: row["date"] for row in store.open(slots["documents"]).table().to_pylist()}
    surveys = {row["corpus_id"] for row in store.open(slots["surveys"]).table().to_pylist() if row["accepted"]}
    cited = {
        FIRST_ID + ID_STEP * number: {FIRST_ID + ID_STEP * other for other in planted_references(number)}
        for number in range(PAPERS)
    }
    topics = planted_topics(store)
    assert len(topics) >= 5
    hidden = shown = 0
    for topic in topics:
        desk = backend.desk(topic)
        visible = {i for i, day in dates.items() if day and day < topic.horizon} - surveys - {topic.topic_id}
        for paper in dates:
            if paper not in visible:
                with pytest.raises(BadInput):
                    desk.citations(paper)
                continue
            references = desk.references(paper, k=PAPERS)
            citations = desk.citations(paper, k=PAPERS)
            citing = {other for other, papers in cited.items() if paper in papers}
            assert references == (sorted(cited[paper] & visible), len(cited[paper] & visible))
            assert citations == (sorted(citing & visible), len(citing & visible))
            hidden += len((citing & dates.keys()) - visible)
            shown += citations.total
    assert hidden > 100 < shown
