"""The project's retrievers as search engines: nothing is kept back, texts come along."""

from pathlib import Path

import pytest

from schemas.search import Found
from tasks.search.engine import EngineKit, Shelf, find_engine
from tasks.search.web_engine import WebClient
from tests.ranking.baselines.conftest import RETRIEVERS
from tests.ranking.baselines.conftest import Shelf as Collection

TEXTS = {
    1: ("Sorting networks", "How to sort."),
    2: ("A survey of sorting", "Surveys of sorting networks."),
    3: ("Late sorting", None),
    4: ("Birds", "They fly."),
}


def _no_web(interval_s: float) -> WebClient:
    raise AssertionError("an edition is searched without the web")


@pytest.mark.parametrize("name", RETRIEVERS)
def test_surveys_and_later_papers_are_found_too(name: str, tmp_path: Path) -> None:
    collection = Collection(tmp_path, TEXTS, late=[3], surveys=[2])
    kit = EngineKit(lambda asked: Shelf(collection.engines[asked], collection.reader), _no_web)
    registered = find_engine(name)
    found = registered.open(kit).search("sorting", 3)  # pyright: ignore
    assert {result.id for result in found} >= {"corpusid:2", "corpusid:3"}
    (late,) = [result for result in found if result.id == "corpusid:3"]
    assert late[:2] == Found("Late sorting")[:2]
    assert late.url == "https://api.semanticscholar.org/CorpusID:3"
    assert len(registered.open(kit).search("sorting", 1)) == 1  # pyright: ignore
    assert {"hybrid": 2}.get(name, 1) == len(registered.parts)
