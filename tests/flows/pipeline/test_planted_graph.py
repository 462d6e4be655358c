"""Citation lookups on an edition whose citations follow a rule: exact for every topic and document."""

from pathlib import Path

import pytest

from flows.pipeline.machine import Machine
from flows.pipeline.release_files import open_files
from flows.pipeline.walk import Pipeline
from schemas.errors import BadInput
from schemas.settings import CorpusSettings, IndexSettings, Resources
from schemas.topic import Topic
from tasks.demo.papers import FIRST_ID, ID_STEP, planted_references
from tasks.demo.release import SyntheticSettings, write_release
from tasks.ranking.evaluated_topics import evaluated_topics
from tasks.retrieval.backend import open_backend
from tasks.store.editions import Editions
from tasks.store.store import Store
from tests.flows.conftest import direct

PAPERS = 240


def test_planted_citations_are_found_exactly(tmp_path: Path) -> None:
    machine = Machine(root=tmp_path / "store", releases=tmp_path / "releases", workers=1)
    write_release(machine.releases, SyntheticSettings(papers=PAPERS, planted=True, files=1))
    store = Store(machine.root)
    pipeline = Pipeline(store, "planted", direct(store)).until("bm25")
    pipeline.build_corpus(CorpusSettings(buckets=2), open_files(machine, None))
    pipeline.build_indexes(IndexSettings(dense_fields=()))
    slots = Editions(store).load("planted").slots
    names = {"documents": "documents", "surveys": "surveys", "edges": "edges", "bm25": "bm25/abstract"}
    backend = open_backend("bm25", {name: store.open(slots[slot]) for name, slot in names.items()}, Resources())

    dates = {row["corpus_id"]: row["date"] for row in store.open(slots["documents"]).table().to_pylist()}
    surveys = {row["corpus_id"] for row in store.open(slots["surveys"]).table().to_pylist() if row["accepted"]}
    cited = {
        FIRST_ID + ID_STEP * number: {FIRST_ID + ID_STEP * other for other in planted_references(number)}
        for number in range(PAPERS)
    }
    topics = evaluated_topics(store.open(slots["topics"]))
    assert len(topics) >= 5
    hidden = shown = 0
    for topic in (Topic(*row) for row in topics.select("topic_id", "title", "horizon").iter_rows()):
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
