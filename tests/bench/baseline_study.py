"""Compares the baselines on an edition: cross-validated parameters, paired tests, parts, candidates and CPU time.

    python -m tests.bench.baseline_study --root STORE --edition NAME --field abstract

Needs the edition's indexes `bm25`, `embeddings` and `lsa` of the field, its `edges`, and no model. Parameters of
`combined` are chosen by nested cross-validation: for each fold of topics, the setting with the best mean recall on the
other folds is applied to the fold. So no topic has a say in the setting that it is scored with.
"""

import argparse
import hashlib
import itertools
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from flows.commands.terminal import show_text
from schemas.settings import REQUIRED_DATASETS, Resources, RetrieverName
from schemas.topic import Topic
from tasks.metrics.ranking import evaluate_run
from tasks.ranking.answers import answer_topic
from tasks.ranking.baseline import Kit, System, all_baselines
from tasks.ranking.evaluated_topics import evaluated_topics, read_qrels
from tasks.ranking.expansion.combination import CombinationSettings, rank_by_combination
from tasks.retrieval.backend import SearchBackend, open_backend
from tasks.stats.intervals import bootstrap_intervals, compare
from tasks.store.editions import Editions
from tasks.store.store import Store

FOLDS, CUTOFF, CANDIDATES = 5, 100, 1000
RECALL, NDCG = "recall_100", "ndcg_cut_100"

GRID: Mapping[str, tuple[Any, ...]] = {
    "own_vector": (0.5, 0.7),
    "smoothing": (0.0, 0.5),
    "acronyms": (False, True),
}
"""Settings of `combined` that are tried: all combinations."""

OFF: Mapping[str, dict[str, Any]] = {
    "survey words": {"subject": False},
    "the query's own lists": {"first_lists": 0.0},
}
"""Parts of `combined`, and the settings that switch each off."""

BARS: tuple[tuple[str, RetrieverName], ...] = (("title", "dense"), ("feedback", "hybrid"))
"""Runs that all others are compared with."""

Values = dict[int, dict[str, float]]


class Scored(NamedTuple):
    """A system's measures by topic, the mean recall of its whole lists, and CPU seconds a topic."""

    values: Values
    recall: float
    seconds: float


class Study:
    """An opened edition, and the systems' scores on its topics.

    Args:
        store: Where the edition is.
        edition: Its name.
        fields: The field of each index by the name of its stage.
        keep: A folder in which scores are kept, so that an interrupted study goes on where it stopped.
    """

    def __init__(self, store: Store, edition: str, fields: Mapping[str, str], keep: Path) -> None:
        slots = Editions(store).load(edition).slots
        self._open = lambda slot: store.open(slots[slot])
        self._fields = fields
        self._keep = keep
        keep.mkdir(parents=True, exist_ok=True)
        rows = evaluated_topics(self._open("topics")).select("topic_id", "title", "horizon").iter_rows()
        self.topics = [Topic(*row) for row in rows]
        self.qrels = read_qrels(self._open("topics"))
        self._backends: dict[str, SearchBackend] = {}

    def backend(self, retriever: RetrieverName) -> SearchBackend:
        if retriever not in self._backends:
            slots = {"documents": "documents", "surveys": "surveys", "edges": "edges"}
            slots |= {name: f"{name}/{self._fields[name]}" for name in REQUIRED_DATASETS[retriever]}
            datasets = {name: self._open(slot) for name, slot in slots.items()}
            self._backends[retriever] = open_backend(retriever, datasets, Resources(device="cpu"))
        return self._backends[retriever]

    def baseline(self, name: str, retriever: RetrieverName, cutoff: int = CUTOFF) -> Scored:
        return self._kept(f"{name}.{retriever}@{cutoff}", all_baselines()[name].system, retriever, cutoff)

    def combined(self, settings: CombinationSettings, retriever: RetrieverName) -> Scored:
        name = hashlib.sha256(settings.model_dump_json().encode()).hexdigest()[:12]
        system: System = lambda topic, kit: rank_by_combination(topic, kit, settings)  # noqa: E731
        return self._kept(f"combined-{name}.{retriever}@{CUTOFF}", system, retriever, CUTOFF)

    def _kept(self, name: str, system: System, retriever: RetrieverName, cutoff: int) -> Scored:
        path = self._keep / f"{name}.json"
        if not path.exists():
            path.write_text(json.dumps(self._run(system, retriever, cutoff)))
        values, recall, seconds = json.loads(path.read_text())
        return Scored({int(topic): found for topic, found in values.items()}, recall, seconds)

    def _run(self, system: System, retriever: RetrieverName, cutoff: int) -> Scored:
        backend, hits = self.backend(retriever), {}
        start = time.process_time()
        for topic in self.topics:
            answer = answer_topic(system, topic, Kit(backend.desk(topic), cutoff, seed=42))
            assert answer.outcome in ("scored", "empty"), answer.note
            hits[topic.topic_id] = [(int(hit.corpus_id), hit.score) for hit in answer.hits]
        seconds = (time.process_time() - start) / len(self.topics)
        relevant = {topic: {doc for doc, label in self.qrels[topic].items() if label} for topic in hits}
        recall = np.mean([len({doc for doc, _ in found} & relevant[t]) / len(relevant[t]) for t, found in hits.items()])
        scored = evaluate_run({topic: self.qrels[topic] for topic in hits}, hits, "graded")["per_topic"]
        return Scored({topic: dict(values) for topic, values in scored.items()}, float(recall), seconds)


def column(values: Values, measure: str) -> np.ndarray:
    """Returns a measure by ascending topic."""
    return np.array([values[topic][measure] for topic in sorted(values)])


def interval(values: np.ndarray) -> str:
    """Returns a mean with its 95 % bootstrap interval over topics."""
    found = bootstrap_intervals(values[:, None], seed=42)
    return f"{values.mean():.3f} [{found.low[0]:.3f}, {found.high[0]:.3f}]"


def difference(values: np.ndarray, other: np.ndarray) -> str:
    """Returns the relative change of the mean, and the p-value of the paired randomisation test."""
    found = compare(values, other, seed=42)
    return f"{found.difference / other.mean():+.0%} (p {found.p_value:.3f})"


def settings_grid() -> Iterator[CombinationSettings]:
    """Yields every combination of `GRID`."""
    for values in itertools.product(*GRID.values()):
        yield CombinationSettings(**dict(zip(GRID, values, strict=True)))


def nested(study: Study, retriever: RetrieverName) -> tuple[Values, list[str]]:
    """Returns each topic's scores under the setting that the other folds chose, and those settings."""
    tried = [(settings, study.combined(settings, retriever).values) for settings in settings_grid()]
    topics = sorted(topic.topic_id for topic in study.topics)
    folds = [topics[place::FOLDS] for place in range(FOLDS)]
    chosen: Values = {}
    names: list[str] = []
    for fold in folds:
        others = [topic for topic in topics if topic not in fold]
        best, values = max(tried, key=lambda item: np.mean([item[1][topic][RECALL] for topic in others]))
        chosen |= {topic: values[topic] for topic in fold}
        names.append(json.dumps(best.model_dump(include=set(GRID))))
    return chosen, names


COLUMNS = (
    "system", "R@100", "nDCG@100", "R to Title.dense", "R to Feedback.hybrid", "nDCG to Title.dense",
    "nDCG to Feedback.hybrid", "R@1000", "CPU seconds a topic",
)  # fmt: skip


def report(study: Study, systems: list[tuple[str, RetrieverName]], retriever: RetrieverName) -> None:
    """Prints the tables as Markdown."""
    bars = [study.baseline(*bar).values for bar in BARS]

    def row(name: str, values: Values, *more: str) -> None:
        changes = [difference(column(values, m), column(bar, m)) for m in (RECALL, NDCG) for bar in bars]
        say([name, interval(column(values, RECALL)), interval(column(values, NDCG)), *changes, *more])

    show_text(f"{len(study.topics)} topics\n")
    say(COLUMNS)
    say(["---"] * len(COLUMNS))
    for name, engine in systems:
        found = study.baseline(name, engine)
        candidates = study.baseline(name, engine, CANDIDATES).recall
        row(f"{name}.{engine}", found.values, f"{candidates:.3f}", f"{found.seconds:.3f}")
    values, names = nested(study, retriever)
    row(f"combined.{retriever}, nested", values, "", "")
    show_text("\nchosen by fold: " + "; ".join(names) + "\n")
    whole = column(study.combined(CombinationSettings(), retriever).values, RECALL)
    say(("left out of combined", "R@100", "change"))
    say(["---"] * 3)
    for part, off in OFF.items():
        without = column(study.combined(CombinationSettings(**off), retriever).values, RECALL)
        say([part, f"{without.mean():.3f}", difference(without, whole)])


def say(cells: Sequence[str]) -> None:
    """Prints a row of a Markdown table."""
    show_text("| " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--edition", required=True)
    parser.add_argument("--field", default="abstract")
    parser.add_argument("--dense-field", help="field of the embeddings, where it is another one")
    parser.add_argument("--keep", type=Path, default=Path("baseline-study"), help="folder for finished runs")
    parser.add_argument("--retriever", default="hybrid_lsa")
    parser.add_argument("--systems", nargs="*", default=[], help="baseline.retriever; left out: all without a model")
    given = parser.parse_args()
    pairs = [tuple(name.split(".")) for name in given.systems] or [
        (name, given.retriever) for name, found in all_baselines().items() if not found.asks
    ]
    fields = {"bm25": given.field, "lsa": given.field, "embeddings": given.dense_field or given.field}
    report(Study(Store(given.root), given.edition, fields, given.keep), pairs, given.retriever)  # pyright: ignore


if __name__ == "__main__":
    main()
