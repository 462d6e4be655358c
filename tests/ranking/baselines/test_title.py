"""Title: one query, the title in lower case."""

from datetime import date
from pathlib import Path

from schemas.identifiers import CorpusId
from schemas.topic import Topic
from tasks.ranking.baseline import Kit
from tasks.ranking.baselines.title import title
from tests.ranking.baselines.conftest import Shelf


def test_the_title_is_sent_once_lower_case_and_trimmed(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, {1: ("Gulls", "Of the sea"), 2: ("Terns", "Seabirds"), 3: ("Gulls and terns", None)})
    topic = Topic(CorpusId(99), "  GULLS and Terns \n", date(2020, 1, 1))
    desk = shelf.desk(topic, "bm25")
    found = title(topic, Kit(desk, cutoff=2, seed=0))
    assert [(search.query, search.k, search.retriever) for search in desk.searches] == [("gulls and terns", 2, "bm25")]
    assert found.hits == shelf.engines["bm25"].search("gulls and terns", 2).hits
    assert found.hits[0].corpus_id == 3
