"""The retrieval sections: a run in which something stood in for a model call is shown without those topics too."""

from pathlib import Path

import pytest

from schemas.tables.runs import OUTCOMES, RUNS
from tasks.ranking.answers import SystemSettings
from tasks.ranking.scores import ScoreSettings, scores
from tasks.reports.blocks import Estimate, TableBlock
from tasks.reports.sections.retrieval import sections
from tasks.reports.source import ReportSource
from tasks.store.store import Request, Store
from tests.published import publish, publish_topics, topic_row

QRELS = {1: {11: 2, 12: 1}, 2: {21: 1}, 3: {31: 2}}


def shown(folder: Path, fallbacks: set[int]) -> list[TableBlock]:
    store = Store(folder)
    topics = publish_topics(store, [topic_row(topic) for topic in QRELS], QRELS)
    settings = SystemSettings(
        baseline="decomposer", baseline_version=1, retriever="bm25", field="abstract", tag="decomposer.bm25.abstract"
    )
    rows = [
        {"topic_id": topic, "corpus_id": found, "rank": 1, "score": -1.0, "tag": settings.tag}
        for topic, found in {1: 11, 2: 99, 3: 31}.items()
    ]
    ended = [{"topic_id": t, "outcome": "scored", "note": None, "fallback": t in fallbacks} for t in QRELS]
    run = publish(store, "run", {"part": (RUNS, rows), "outcomes": (OUTCOMES, ended)}, settings)
    scored = store.build(Request(scores, ScoreSettings(), {"run": run, "topics": topics})).ref
    named = {f"run:{settings.tag}": run, f"scores:{settings.tag}": scored, "topics": topics}
    source = ReportSource({name: store.open(ref) for name, ref in named.items()})
    blocks = [block for section in sections(source) for block in section.blocks]
    return [block for block in blocks if isinstance(block, TableBlock) and "fallbacks" in block.name]


def test_a_run_with_fallbacks_is_shown_without_them(tmp_path: Path) -> None:
    discovery, selection = shown(tmp_path, {2})
    assert (discovery.name, selection.name) == ("discovery_fallbacks", "selection_fallbacks")
    ((tag, recall, *_, fallbacks, others),) = discovery.rows
    assert (tag, fallbacks, others) == ("decomposer.bm25.abstract", 1, 2)
    assert isinstance(recall, Estimate) and recall.mean == pytest.approx((0.5 + 1) / 2)


def test_without_fallbacks_there_is_no_such_table(tmp_path: Path) -> None:
    assert shown(tmp_path, set()) == []
