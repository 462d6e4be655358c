"""The baseline `feedback` finds what the title's best papers have in common, not only what the title says."""

from datetime import date
from pathlib import Path

import pytest

from schemas.identifiers import CorpusId
from schemas.settings import Resources
from schemas.topic import Topic
from tasks.baselines.feedback import feedback
from tasks.baselines.title import title
from tasks.index.bm25 import Bm25Index, Bm25Settings, bm25
from tasks.retrieval.bm25 import Bm25Retriever
from tasks.retrieval.catalogue import DocumentReader, load_catalogue
from tasks.retrieval.desk import ResearchDesk
from tasks.retrieval.retriever import Allowed
from tasks.retrieval.system import Kit
from tasks.store.store import Request, Store
from tests.stats.conftest import publish_documents, publish_surveys

TOPIC = Topic(CorpusId(1), "Seabird tracking: a survey", date(2020, 1, 1))
RELATED, UNRELATED = 30, 31


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Kit:
    """Papers that name the topic and geolocators; one on geolocators alone; many on other things."""
    store = Store(Path(tmp_path_factory.mktemp("feedback")))
    texts: dict[int, tuple[str, str | None]] = {
        n: (f"Seabird tracking study {n}", "Geolocators were fitted to gulls on remote islands.") for n in range(10, 15)
    }
    texts[RELATED] = ("Geolocators fitted to gulls", "Remote islands and geolocators.")
    texts[UNRELATED] = ("Compilers for parallel machines", "Register allocation and scheduling.")
    texts |= {n: (f"Paper {n} on databases", "Query plans and storage of records.") for n in range(40, 70)}
    documents, surveys = publish_documents(store, texts, late=set()), publish_surveys(store, set())
    request = Request(bm25, Bm25Settings(field="title_abstract"), {"documents": documents})
    engine = Bm25Retriever(Bm25Index(store.open(store.build(request, Resources(workers=1)).ref)))
    allowed = Allowed.of(load_catalogue(store.open(documents), store.open(surveys)), TOPIC)
    desk = ResearchDesk(TOPIC, {"bm25": engine}, "bm25", allowed, DocumentReader(store.open(documents)))
    return Kit(desk, 10, seed=1)


def test_a_paper_without_the_titles_words_is_found_by_its_relatives(kit: Kit) -> None:
    plain = {hit.corpus_id for hit in title(TOPIC, kit).hits}
    expanded = [hit.corpus_id for hit in feedback(TOPIC, kit).hits]
    assert RELATED not in plain
    assert RELATED in expanded
    assert UNRELATED not in expanded
    assert set(expanded[:5]) == set(range(10, 15))


def test_a_title_that_finds_nothing_gives_an_empty_ranking(kit: Kit) -> None:
    assert feedback(TOPIC._replace(title="zyx"), kit).hits == []
