"""Recall of whole lists, searches a topic, and runs beside those that lack one of their parts."""

import pytest

from schemas.tables.runs import OUTCOMES, RUNS, SEARCHES, SearchRow
from tasks.ranking.answers import SystemSettings
from tasks.reports.blocks import Estimate, TableBlock
from tasks.reports.sections.parts import _pairs, sections  # pyright: ignore[reportPrivateUsage]
from tasks.reports.source import ReportSource
from tasks.store.store import Store
from tests.published import publish
from tests.reports.test_retrieval import FIRST, QRELS, SECOND, opened, publish_edition, rows


def candidates(source: ReportSource) -> TableBlock:
    (section,) = sections(source)
    block = section.blocks[0]
    assert isinstance(block, TableBlock)
    return block


def test_recall_is_of_the_whole_list_over_all_topics(store: Store) -> None:
    """FIRST finds one of two papers of topic 1, none of topic 2, the one of topic 3; SECOND only that of topic 2."""
    found = rows(candidates(opened(store, publish_edition(store))))
    recall = {tag: row["Recall of the list"] for tag, row in found.items()}
    assert all(isinstance(value, Estimate) for value in recall.values())
    assert {tag: value.mean for tag, value in recall.items()} == pytest.approx({FIRST: 0.5, SECOND: 1 / 3})
    assert found[FIRST]["Searches a topic"] == 0


def test_searches_and_look_ups_are_counted_apart(store: Store) -> None:
    refs, tag = publish_edition(store), "expansion.bm25.abstract"
    engines = ["bm25"] * 6 + ["references"] * 2 + ["citations"]
    made = [SearchRow(1, place, "q", engine, 9, 9, 1, 9, 0, 0, 0)._asdict() for place, engine in enumerate(engines)]
    ended = [{"topic_id": topic, "outcome": "scored", "note": None, "fallback": False} for topic in QRELS]
    settings = SystemSettings(
        baseline="expansion", baseline_version=1, retriever="bm25", field="abstract", cutoff=1000, tag=tag
    )
    parts = {"part": (RUNS, []), "outcomes": (OUTCOMES, ended), "searches": (SEARCHES, made)}
    refs |= {f"run:{tag}": publish(store, "run", parts, settings), f"scores:{tag}": refs[f"scores:{FIRST}"]}
    row = rows(candidates(opened(store, refs)))[tag]
    assert (row["Length"], row["Searches a topic"], row["Look-ups a topic"]) == (1000, 2.0, 1.0)
    assert row["Recall of the list"].mean == 0


def test_pairs_differ_in_one_part() -> None:
    tags = [
        "title.bm25.abstract", "title.bm25_lsa.abstract", "title.hybrid.abstract+minilm", "subject.bm25.abstract",
        "subject.bm25_lsa.abstract", "subject.hybrid_lsa.abstract+minilm", "subject.bm25.title", "mine.bm25.abstract",
    ]  # fmt: skip
    assert sorted(_pairs(tags)) == [
        ("subject.bm25.abstract", "title.bm25.abstract"),
        ("subject.bm25_lsa.abstract", "subject.bm25.abstract"),
        ("subject.bm25_lsa.abstract", "title.bm25_lsa.abstract"),
        ("subject.hybrid_lsa.abstract+minilm", "subject.bm25_lsa.abstract"),
        ("title.bm25_lsa.abstract", "title.bm25.abstract"),
        ("title.hybrid.abstract+minilm", "title.bm25.abstract"),
    ]
