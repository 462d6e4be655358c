"""A small edition with hostile titles, one run, and judged search results."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from schemas.llm import ModelName
from schemas.manifest import Ref
from schemas.search import JudgeSettings
from schemas.settings import Settings
from schemas.tables.judgments import JUDGMENTS, SEARCH_POOL
from schemas.tables.runs import OUTCOMES, RUNS
from tasks.exports.edition import Edition
from tasks.store.dataset import Dataset
from tasks.store.store import Store
from tests.published import publish, publish_topics, topic_row

HOSTILE = 'Line\nbreaks,\ttabs,\r\nfeeds\x0b\x85\u2028 and "quotes"'
TAG = "title.dense.abstract+minilm"
JUDGED = "search/some/judgments/paper_lantern+m"

Qrels = dict[int, dict[int, int]]
Scores = dict[int, dict[int, float]]


class _Tag(Settings):
    tag: str


class Small(NamedTuple):
    """An edition, and the labels and scores that it was made of."""

    edition: Edition
    qrels: Qrels
    scores: Scores


def publish_run(store: Store, tag: str, scores: Scores) -> Ref:
    rows = [
        {"topic_id": topic, "corpus_id": document, "rank": rank, "score": score, "tag": tag}
        for topic, hits in scores.items()
        for rank, (document, score) in enumerate(sorted(hits.items(), key=lambda hit: -hit[1]), 1)
    ]
    ended = [{"topic_id": topic, "outcome": "scored", "note": None, "fallback": False} for topic in scores]
    return publish(store, "run", {"part": (RUNS, rows), "outcomes": (OUTCOMES, ended)}, _Tag(tag=tag))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "root")


@pytest.fixture
def small(store: Store) -> Small:
    """Five topics, of which the last has no results, and one that is not evaluated; scores lie close together."""
    generator = np.random.default_rng(1)
    qrels = {t: {int(d): int(generator.integers(1, 3)) for d in generator.choice(200, 30, False)} for t in range(1, 6)}
    scores = {
        t: {int(d): float(np.float32(0.7 + generator.random() / 1000)) for d in generator.choice(200, 100, False)}
        for t in range(1, 5)
    }
    topics = publish_topics(store, [topic_row(t, HOSTILE) for t in qrels] + [topic_row(9, outcome="no_date")], qrels)
    run = publish_run(store, TAG, scores)
    return Small(Edition("small", {"topics": store.open(topics), f"run/{TAG}": store.open(run)}), qrels, scores)


@pytest.fixture
def judged(store: Store) -> Dataset:
    """Two queries with one engine's results, of which one paper was not scored."""
    settings = JudgeSettings(
        judge="paper_lantern",
        judge_version=1,
        model=ModelName(provider="scripted", model="m"),
        engines=("bm25.abstract",),
        tag="paper_lantern+m",
    )
    levels = {("some/q 1", "doi:10.1/a b"): 5, ("some/q 1", "id:x"): None, ("some/q2", "doi:10.1/c"): 0}
    judgments = [
        {"query_key": query, "doc_key": document, "judge": settings.tag, "model": "m", "attempt": 0, "score": level}
        | {"outcome": "scored" if level is not None else "failed", "title_only": False, "title": "A", "abstract": None}
        | {"confidence": None, "reason": None, "note": None}
        for (query, document), level in levels.items()
    ]
    pool = [
        {"query_key": query, "engine": "bm25.abstract", "rank": rank, "doc_key": document}
        for rank, (query, document) in enumerate(levels, 1)
    ]
    return store.open(publish(store, "judge", {"part": (JUDGMENTS, judgments), "pool": (SEARCH_POOL, pool)}, settings))
