"""Makes the reference cases beside this file: seeded inputs, with answers computed by other tools.

Run `python -m tests.reference.generate` to write them again. The answers come from pytrec_eval (rankings), zss (trees)
and the published formulas in plain Python (fusion, heading recalls); nothing of the project computes them.
"""

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytrec_eval
import zss

FOLDER = Path(__file__).parent
SEED = 20_240_206
MEASURES = {"P.10,100", "recall.10,100", "ndcg_cut.10,30,100", "recip_rank"}

Case = dict[str, Any]
Tree = dict[str, Any]
Qrels = dict[str, dict[str, int]]
Run = dict[str, list[tuple[str, float]]]


def rankings(draw: random.Random) -> Iterator[Case]:
    """Rankings with judgments, as pytrec_eval scores them."""
    kinds: dict[str, Callable[[], tuple[Qrels, Run]]] = {
        "random": lambda: _judged_run(draw, depth=120),
        "ties": lambda: _judged_run(draw, scores=[1.0, 2.0, 2.5]),
        "short": lambda: _judged_run(draw, depth=7),
        "negative": lambda: _judged_run(draw, scores=[-3.0, -2.0, -0.5]),
        "graded": lambda: _judged_run(draw, labels=[0, 1, 2, 3]),
        "only_weak": lambda: _judged_run(draw, labels=[1]),
    }
    for kind, make in kinds.items():
        for number in range(3):
            qrels, run = make()
            yield _ranking_case(f"{kind}-{number}", qrels, run)
    qrels, run = _judged_run(draw)
    first, second = list(qrels)[:2]
    yield _ranking_case("missing_topic", qrels, {first: run[first]})
    yield _ranking_case("empty_list", qrels, {**run, second: []})
    yield _ranking_case("unjudged_topic", {first: qrels[first]}, run)
    yield _ranking_case("repeated_documents", qrels, {topic: hits + hits[:4] for topic, hits in run.items()})


def _judged_run(
    draw: random.Random, depth: int = 40, scores: Sequence[float] = (), labels: Sequence[int] = (1, 1, 2)
) -> tuple[Qrels, Run]:
    qrels: Qrels = {}
    run: Run = {}
    for topic in ("10", "11", "12"):
        documents = [str(number) for number in draw.sample(range(1000, 9999), depth + 20)]
        qrels[topic] = {document: draw.choice(labels) for document in draw.sample(documents, 15)}
        given = [draw.choice(scores) if scores else round(draw.uniform(0, 30), 3) for _ in documents[:depth]]
        run[topic] = list(zip(documents[:depth], given, strict=True))
    return qrels, run


def _ranking_case(name: str, qrels: Qrels, run: Run) -> Case:
    strong = {t: {d: 1 for d, label in judged.items() if label >= 2} for t, judged in qrels.items()}
    expected = {
        "graded": _trec_eval(qrels, run),
        "influential_only": _trec_eval({topic: judged for topic, judged in strong.items() if judged}, run),
    }
    return {"id": name, "qrels": qrels, "run": run, "expected": expected}


def _trec_eval(qrels: Qrels, run: Run) -> Case:
    best: dict[str, dict[str, float]] = {}
    for topic, hits in run.items():
        for document, score in hits:
            scores = best.setdefault(topic, {})
            scores[document] = max(score, scores.get(document, score))
    found = pytrec_eval.RelevanceEvaluator(qrels, MEASURES).evaluate(best) if qrels else {}
    names = sorted(next(iter(found.values()), {}))
    empty = dict.fromkeys(names, 0.0)
    found |= {topic: empty for topic, hits in run.items() if topic in qrels and not hits and names}

    def mean(topics: Sequence[str]) -> dict[str, float] | None:
        return {n: sum(found.get(t, empty)[n] for t in topics) / len(topics) for n in names} if topics else None

    return {"per_query": found, "mean_all_qrels": mean(list(qrels)), "mean_evaluated": mean(list(found))}


def fusions(draw: random.Random) -> Iterator[Case]:
    """Lists of documents, fused by reciprocal ranks in exact fractions and by the best score."""
    for number, k in enumerate([60, 60, 60, 1, 0, 10]):
        lists = [draw.sample("abcdefghijklmnop", draw.randint(0, 12)) for _ in range(draw.randint(1, 4))]
        if number == 2:
            lists[0] = lists[0] * 2
        scored = [sorted((round(draw.uniform(0, 9), 2) for _ in ranking), reverse=True) for ranking in lists]
        exact: dict[str, Fraction] = {}
        for ranking in lists:
            for rank, document in enumerate(dict.fromkeys(ranking), 1):
                exact[document] = exact.get(document, Fraction()) + Fraction(1, k + rank)
        levels = sorted(set(exact.values()), reverse=True)
        best = [
            (d, s) for ranking, scores in zip(lists, scored, strict=True) for d, s in zip(ranking, scores, strict=True)
        ]
        yield {
            "id": f"fusion-{number}",
            "k": k,
            "rankings": lists,
            "list_scores": scored,
            "expected": {
                "scores": {document: float(score) for document, score in exact.items()},
                "tie_groups": [sorted(d for d, score in exact.items() if score == level) for level in levels],
                "combmax_scores": {document: max(s for d, s in best if d == document) for document in exact},
                "n": len(exact),
            },
        }


def edit_distances(draw: random.Random) -> Iterator[Case]:
    """Pairs of trees with their edit distance by zss."""
    for number, nodes in enumerate([1, 2, 3, 5, 8, 12, 20, 30, 45]):
        t1 = _tree(draw, nodes)
        t2 = _tree(draw, max(1, nodes + draw.randint(-3, 3)))
        yield {"id": f"ted-{number}", "t1": t1, "t2": t2, "expected": {"ted": _zss(t1, t2, _plain)}}


def semantic_distances(draw: random.Random) -> Iterator[Case]:
    """Pairs of trees with similarities of their labels, and the distances by zss under each option."""
    for number, nodes in enumerate([1, 3, 6, 10, 15, 25]):
        t1, t2 = _tree(draw, nodes), _tree(draw, nodes + 2)
        labels1, labels2 = sorted(set(_labels(t1))), sorted(set(_labels(t2)))
        threshold = draw.choice([0.5, 0.7, 0.8])
        sim = [[draw.choice([-0.2, 0.3, 0.6, 0.75, threshold, 0.9]) for _ in labels2] for _ in labels1]
        close = {(a, b): sim[i][j] for i, a in enumerate(labels1) for j, b in enumerate(labels2)}
        free1 = {a for a in labels1 if any(close[a, b] > threshold for b in labels2)}
        free2 = {b for b in labels2 if any(close[a, b] > threshold for a in labels1)}

        def strict(a: str, b: str, near: Mapping[tuple[str, str], float] = close, limit: float = threshold) -> int:
            return int(a != b and not near[a, b] > limit)

        def inclusive(a: str, b: str, near: Mapping[tuple[str, str], float] = close, limit: float = threshold) -> int:
            return int(a != b and not near[a, b] >= limit)

        expected = {
            "tsd": _zss(t1, t2, strict),
            "ted": _zss(t1, t2, _plain),
            "tsd_ge": _zss(t1, t2, inclusive),
            "tsd_free_ops": _zss(t1, t2, strict, free1, free2),
        }
        yield {
            "id": f"tsd-{number}",
            "t1": t1,
            "t2": t2,
            "labels1": labels1,
            "labels2": labels2,
            "sim": sim,
            "threshold": threshold,
            "expected": expected,
        }


def _tree(draw: random.Random, nodes: int) -> Tree:
    made: list[Tree] = [{"label": draw.choice("abcdefgh"), "children": []}]
    for _ in range(nodes - 1):
        node: Tree = {"label": draw.choice("abcdefgh"), "children": []}
        draw.choice(made)["children"].append(node)
        made.append(node)
    return made[0]


def _labels(tree: Tree) -> Iterator[str]:
    yield tree["label"]
    for child in tree["children"]:
        yield from _labels(child)


def _plain(a: str, b: str) -> int:
    return int(a != b)


def _zss(
    t1: Tree, t2: Tree, relabel: Callable[[str, str], int], free1: set[str] | None = None, free2: set[str] | None = None
) -> int:
    distance: Any = zss.distance(
        t1,
        t2,
        lambda node: node["children"],
        insert_cost=lambda node: int(node["label"] not in (free2 or ())),
        remove_cost=lambda node: int(node["label"] not in (free1 or ())),
        update_cost=lambda a, b: relabel(a["label"], b["label"]),
    )
    return int(distance)


def soft_recalls(draw: random.Random) -> Iterator[Case]:
    """Headings with vectors, and their soft recall by the published formula (Franti and Mariescu-Istodor, 2023)."""
    for number in range(8):
        labels = [f"h{place}" for place in range(draw.randint(2, 9))]
        signed = number % 2 == 1
        vectors = {label: [round(draw.uniform(-0.3 if signed else 0.0, 1.0), 4) for _ in range(6)] for label in labels}
        golden = draw.sample(labels, draw.randint(1, len(labels)))
        predicted = [] if number == 7 else draw.sample(labels, draw.randint(1, len(labels)))
        expected = _soft_recall(golden, predicted, vectors, np.float64)
        narrow = _soft_recall(golden, predicted, vectors, np.float32)
        clipped = _soft_recall(golden, predicted, vectors, np.float64, clip=True)
        yield {
            "id": f"soft_recall-{number}",
            "golden": golden,
            "predicted": predicted,
            "embeddings": vectors,
            "min_abs_row_sum": expected.pop("min_abs_row_sum"),
            "expected": expected
            | {
                "heading_soft_recall_float32": narrow["heading_soft_recall"],
                "heading_soft_recall_clipped01": clipped["heading_soft_recall"],
            },
        }


def _soft_recall(
    golden: Sequence[str],
    predicted: Sequence[str],
    vectors: Mapping[str, Sequence[float]],
    kind: type[np.floating[Any]],
    *,
    clip: bool = False,
) -> dict[str, float]:
    sums: list[float] = []

    def cardinality(labels: Sequence[str]) -> float:
        if not labels:
            return 0.0
        rows = np.array([vectors[label] for label in labels], kind)
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        cosines = rows @ rows.T
        totals = (np.clip(cosines, 0, 1) if clip else cosines).sum(axis=1)
        sums.extend(np.abs(totals).tolist())
        return float((1 / totals).sum())

    gold, built = list(dict.fromkeys(golden)), list(dict.fromkeys(predicted))
    cards = [cardinality(labels) for labels in (gold, built, list(dict.fromkeys(gold + built)))]
    recall = (cards[0] + cards[1] - cards[2]) / cards[0] if built else 0.0
    names = ("card_golden", "card_predicted", "card_union")
    return {"heading_soft_recall": recall, "min_abs_row_sum": min(sums), **dict(zip(names, cards, strict=True))}


def entity_recalls(draw: random.Random) -> Iterator[Case]:
    """Sets of entities, and the share of the golden ones that were predicted."""
    names = ["imagenet", "covid-19", "u.s.", "google", "lstm", "5g"]
    for number in range(8):
        golden = [] if number < 2 else draw.sample(names, draw.randint(1, 6))
        predicted = draw.sample(names, draw.randint(0, 6)) if number else []
        recall = len(set(golden) & set(predicted)) / len(set(golden)) if golden else 1.0
        yield {
            "id": f"entity_recall-{number}",
            "golden_entities": golden,
            "predicted_entities": predicted,
            "expected": {"heading_entity_recall": recall},
        }


FILES = {
    "ir": rankings,
    "rrf": fusions,
    "ted": edit_distances,
    "tsd": semantic_distances,
    "soft_recall": soft_recalls,
    "entity_recall": entity_recalls,
}


def main() -> None:
    """Writes a file of JSON lines for each kind of case."""
    for name, make in FILES.items():
        lines = [json.dumps(case, separators=(",", ":")) + "\n" for case in make(random.Random(f"{SEED} {name}"))]
        (FOLDER / f"{name}.jsonl").write_text("".join(lines))


if __name__ == "__main__":
    main()
