"""Invented editions of any size, written through the store as stages write them."""

from datetime import date, timedelta
from itertools import product
from typing import Any

import numpy as np

from schemas.llm import ModelName
from schemas.manifest import Ref
from schemas.settings import Settings
from schemas.submission import System
from schemas.tables.model_calls import MODEL_CALLS, ModelCallRow
from schemas.tables.papers import PAPERS
from schemas.tables.runs import OUTCOMES, RUNS, SEARCHES, STEPS, OutcomeRow, RunRow, SearchRow, StepRow
from schemas.tables.submissions import SUBMISSIONS, SubmissionRow
from tasks.ranking.answers import SystemSettings
from tasks.ranking.scores import ScoreSettings, scores
from tasks.store.editions import Editions
from tasks.store.store import Request, Store
from tasks.submissions.stages import SubmissionSettings
from tests.published import publish, publish_topics, topic_row

HOSTILE = "<script>alert(1)</script> & 'x' \"y\""
FIELDS = ("Computer Science", "Medicine", "Biology", "Physics")
RELEVANT = 12
BASELINES = ("title", "feedback", "zero_shot", "decomposer", "self_rag", "storm")


def tags(number: int) -> list[str]:
    """Names of so many runs; the first is `title.bm25.abstract`."""
    kinds = product(("abstract", "title", "title_abstract"), ("bm25", "dense", "hybrid"), BASELINES)
    return [f"{baseline}.{retriever}.{field}" for field, retriever, baseline in kinds][:number]


def publish_runs(store: Store, topics: int, runs: list[str], depth: int = 20, resamples: int = 200) -> dict[str, Ref]:
    """Slots of an edition; runs are alike by twos, and each two find less than those before."""
    chance = np.random.default_rng(7)
    rows = [
        topic_row(t, f"Survey {t} {HOSTILE if t == 1 else ''}", fields=FIELDS[t % 4 : t % 4 + 1 + t % 2])
        | {"horizon": date(2018, 1, 1) + timedelta(days=5 * t), "relevant": RELEVANT}
        for t in range(1, topics + 1)
    ]
    qrels = {t: {1000 * t + n: 2 if n < 3 else 1 for n in range(RELEVANT)} for t in range(1, topics + 1)}
    slots = {"topics": publish_topics(store, rows, qrels)}
    named = [_paper(document) for of_topic in qrels.values() for document in of_topic]
    slots["papers"] = publish(store, "papers", {"part": (PAPERS, named)})
    for number, tag in enumerate(runs):
        share = 0.9 - 0.6 * (number // 2) / max(1, len(runs) - 1)
        slots[f"run/{tag}"] = _run(store, tag, qrels, chance, share, depth)
        inputs = {"run": slots[f"run/{tag}"], "topics": slots["topics"]}
        slots[f"scores/{tag}"] = store.build(Request(scores, ScoreSettings(resamples=resamples), inputs)).ref
    return slots


def _paper(corpus_id: int) -> dict[str, Any]:
    lists = {"authors": [], "fields_of_study": [], "publication_types": []}
    dated = {"has_full_text": False, "date": date(2017, 1, 1), "date_precision": "day"}
    return {"corpus_id": corpus_id, "title": f"Paper {corpus_id} {HOSTILE}", **dated, **lists}


def _run(
    store: Store, tag: str, qrels: dict[int, dict[int, int]], chance: np.random.Generator, share: float, depth: int
) -> Ref:
    hits: list[dict[str, Any]] = []
    for topic, relevant in qrels.items():
        found = [document for document in relevant if chance.random() < share]
        others = [10_000_000 + 1000 * topic + n for n in range(depth - len(found))]
        ranked = chance.permutation(found + others).tolist()
        hits += [RunRow(topic, paper, rank, -float(rank), tag)._asdict() for rank, paper in enumerate(ranked, 1)]
    searches = [
        SearchRow(t, 0, f"survey {t} {HOSTILE}", "bm25", depth, depth, 1, depth, 1, 0, 1)._asdict() for t in qrels
    ]
    shown = {t: [paper for paper in hits if paper["topic_id"] == t][:10] for t in qrels}
    steps = [StepRow(t, 0, 0, [paper["corpus_id"] for paper in shown[t]], depth)._asdict() for t in qrels]
    steps += [StepRow(t, 1, None, [1000 * t], 1)._asdict() for t in qrels]
    ended = [OutcomeRow(t, "scored", None, fallback=False)._asdict() for t in qrels]
    tables: dict[str, Any] = {"part": (RUNS, hits), "searches": (SEARCHES, searches), "outcomes": (OUTCOMES, ended)}
    tables["steps"] = (STEPS, steps)
    if "@" in tag:
        told = [SubmissionRow(str(t), True, depth, 0, 0, 1, 100, 10, 0.01, 2.0)._asdict() for t in qrels]
        system = System(name=tag.partition("@")[0], version="1", contact="hidden@example.org")
        settings: Settings = SubmissionSettings(system=system, task="discovery", tag=tag, seed=len(qrels))
        return publish(store, "submitted_run", {**tables, "submissions": (SUBMISSIONS, told)}, settings)
    baseline, retriever, field = tag.partition("+")[0].split(".")
    model = ModelName(provider="stand-in", model="stand-in") if "stand-in" in tag else None
    settings = SystemSettings.model_validate(
        {
            "baseline": baseline,
            "baseline_version": 1,
            "retriever": retriever,
            "field": field,
            "tag": tag,
            "model": model,
        }
        | {"seed": len(qrels)}
    )
    if model:
        calls = [ModelCallRow(str(t), 1, "query@1", ["k"], "ok", None, 100, 10, 0.002)._asdict() for t in qrels]
        tables["calls"] = (MODEL_CALLS, calls)
    return publish(store, "run", tables, settings)


def record(store: Store, name: str, slots: dict[str, Ref]) -> None:
    """Records an edition."""
    Editions(store).record(name, name, slots)
