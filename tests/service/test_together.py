"""Searches that come at once are searched together, and find what each finds by itself."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from schemas.settings import Resources
from schemas.topic import CorpusId, Topic
from tasks.index.dense import DenseIndex
from tasks.retrieval.backend import open_backend
from tasks.service.record import record_problems
from tasks.store.editions import Editions
from tasks.store.store import Store
from tests.index.conftest import give_embeddings
from tests.retrieval.conftest import DIMENSIONS, Axes
from tests.service.conftest import EDITION, TITLES, Start, texts
from tests.service.test_contract import call

EACH = 15
"""Searches of a topic."""


def test_hybrid_searches_at_once_find_what_a_desk_finds_alone(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.retrieval.backend.open_encoder", lambda *_: Axes())
    asked: list[int] = []
    plain = DenseIndex.search_many

    def counted(index: DenseIndex, vectors: Any, n: int, kept: Any = None) -> Any:
        asked.append(len(vectors))
        return plain(index, vectors, n, kept)

    monkeypatch.setattr(DenseIndex, "search_many", counted)
    served = start()
    store = Store(served.root)
    rng = np.random.default_rng(1)
    vectors = {i: rng.integers(0, 5, DIMENSIONS) + 0.5 for i in texts()}
    embeddings = give_embeddings(SimpleNamespace(store=store), vectors)  # type: ignore[arg-type]
    Editions(store).record(EDITION, "2026-01-06", {"embeddings/abstract": embeddings})

    topics = served.lease(served.open_run("hybrid"), 3)
    work = [(topic, f"{topic['title']} {'north ' * n}") for n in range(EACH) for topic in topics]

    def search(item: tuple[dict[str, Any], str]) -> dict[str, Any]:
        return call(served, item[0]["topic_token"], "search", query=item[1], k=9).json()

    with ThreadPoolExecutor(len(work)) as threads:
        replies = list(threads.map(search, work))
    assert {reply["engine"] for reply in replies} == {"hybrid"}
    assert served.desk.batches.largest > 1 and max(asked) > 1

    slots = Editions(store).load(EDITION).slots
    names = {name: name for name in ("documents", "surveys", "edges")}
    names |= {name: f"{name}/abstract" for name in ("bm25", "embeddings")}
    backend = open_backend("hybrid", {name: store.open(slots[slot]) for name, slot in names.items()}, Resources())
    horizon = next(iter(served.desk.editions.opened(EDITION).allowed(str(t)) for t in TITLES)).horizon
    by_title = {title: Topic(CorpusId(topic), title, horizon) for topic, title in TITLES.items()}
    for (topic, query), reply in zip(work, replies, strict=True):
        expected = backend.desk(by_title[topic["title"]]).search(query, 9)
        assert [(hit["corpus_id"], hit["score"]) for hit in reply["hits"]] == expected
    for topic in topics:
        mine = [reply for (asked_by, _), reply in zip(work, replies, strict=True) if asked_by is topic]
        assert sorted(reply["quotas_left"]["searches"] for reply in mine) == list(range(1000 - EACH, 1000))
    assert record_problems(served.root, EDITION) == []
