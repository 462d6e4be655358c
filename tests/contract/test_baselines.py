"""Contract of every registered baseline: a poisoned corpus cannot reach it, and its answers are valid runs.

The corpus holds three forbidden documents with the perfect text: a later paper, another survey, the survey itself.
"""

from collections.abc import Sequence
from datetime import date
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from schemas.identifiers import CorpusId
from schemas.topic import Hit, Topic
from tasks.retrieval.catalogue import Document
from tasks.retrieval.desk import ResearchDesk
from tasks.retrieval.retriever import Query
from tasks.retrieval.system import Kit, all_baselines
from tasks.stats.systems import Answer, answer_topic
from tests.baselines.conftest import RETRIEVERS, Shelf

TITLE = "Seabird migration and tracking: a survey"
ABSTRACT = "We survey seabird migration and tracking of seabirds with light loggers."
ITSELF, OTHER_SURVEY, LATER = 1, 2, 3
FORBIDDEN = {ITSELF, OTHER_SURVEY, LATER}
WORDS = ["seabird", "migration", "tracking", "loggers", "light", "gulls", "terns", "ocean", "wind", "islands", "food"]
TOPIC = Topic(CorpusId(ITSELF), TITLE, date(2020, 1, 1))
CUTOFF = 10


def honest_documents() -> dict[int, tuple[str, str | None]]:
    generator = np.random.default_rng(3)
    texts = {n: [" ".join(generator.choice(WORDS, size)) for size in (4, 25)] for n in range(10, 60)}
    return {n: (title, abstract if n % 7 else None) for n, (title, abstract) in texts.items()}


class WatchedDesk(ResearchDesk):
    """A desk that remembers every document that it handed out, by whatever way."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.handed: set[int] = set()

    def search(self, query: Query, k: int, engine: str | None = None) -> list[Hit]:
        hits = super().search(query, k, engine)
        self.handed |= {int(hit.corpus_id) for hit in hits}
        return hits

    def read(self, ids: Sequence[int]) -> list[Document]:
        self.handed |= set(map(int, ids))
        return super().read(ids)

    def vectors(self, ids: Sequence[int]) -> NDArray[np.float32]:
        self.handed |= set(map(int, ids))
        return super().vectors(ids)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    texts = honest_documents() | dict.fromkeys(FORBIDDEN, (TITLE, ABSTRACT))
    return Shelf(tmp_path_factory.mktemp("poisoned"), texts, late={ITSELF, LATER}, surveys={ITSELF, OTHER_SURVEY})


def ask(shelf: Shelf, name: str, retriever: str, topic: Topic = TOPIC) -> tuple[Answer, WatchedDesk]:
    desk = shelf.desk(topic, retriever, WatchedDesk)
    assert isinstance(desk, WatchedDesk)
    return answer_topic(all_baselines()[name].system, topic, Kit(desk, CUTOFF, seed=1)), desk


@pytest.mark.parametrize("retriever", RETRIEVERS)
def test_the_poison_is_what_an_unfiltered_search_finds_first(shelf: Shelf, retriever: str) -> None:
    found = shelf.engines[retriever].search(TITLE.lower(), 3)
    assert {hit.corpus_id for hit in found.hits} == FORBIDDEN


@pytest.mark.parametrize("retriever", RETRIEVERS)
@pytest.mark.parametrize("name", sorted(all_baselines()))
def test_nothing_forbidden_reaches_a_baseline_or_leaves_it(name: str, retriever: str, shelf: Shelf) -> None:
    answer, desk = ask(shelf, name, retriever)
    assert answer.outcome == "scored", answer.note
    assert len(answer.hits) == CUTOFF
    assert desk.searches and not desk.handed & FORBIDDEN
    assert {hit.corpus_id for hit in answer.hits} <= desk.handed


@pytest.mark.parametrize("retriever", RETRIEVERS)
@pytest.mark.parametrize("name", sorted(all_baselines()))
def test_a_baseline_repeats_itself(name: str, retriever: str, shelf: Shelf) -> None:
    assert ask(shelf, name, retriever)[0] == ask(shelf, name, retriever)[0]


@pytest.mark.parametrize("title", ["", " ?! ", "zyx", "A survey"])
@pytest.mark.parametrize("retriever", RETRIEVERS)
@pytest.mark.parametrize("name", sorted(all_baselines()))
def test_an_odd_title_does_not_break_a_baseline(name: str, retriever: str, title: str, shelf: Shelf) -> None:
    """No text, no words, a word that no document holds, nothing but the genre."""
    answer, _ = ask(shelf, name, retriever, TOPIC._replace(title=title))
    assert answer.outcome in ("scored", "empty"), answer.note
