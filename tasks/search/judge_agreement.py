"""The `agreement` stage: how stable a judge is, and how well it agrees with other judges and with people."""

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import NamedTuple

import numpy as np

from schemas.search import LEVELS
from schemas.settings import Settings
from schemas.tables.agreements import AGREEMENTS, CONFIDENCES, AgreementRow, ConfidenceRow
from tasks.search.judgment_sheets import JudgedPaper, read_labels
from tasks.search.judgments import judge as judge_stage
from tasks.stats.agreement import krippendorff_alpha, weighted_kappa
from tasks.store.dataset import Dataset
from tasks.store.parquet import write_rows
from tasks.store.stage import stage
from tasks.store.workspace import Workspace

JUDGMENTS = "judgments:"
"""Inputs with judgments are named by this and the judge's tag."""

HUMAN = "human"

Scores = Mapping[JudgedPaper, int]


class AgreementSettings(Settings):
    """Nothing to choose: the judgments decide."""


class Source(NamedTuple):
    """One set of judgments: a judge's at one attempt, or people's."""

    name: str
    judge: str
    attempt: int
    scores: Scores
    confidences: Scores


@stage("agreement", version=1, settings=AgreementSettings, after="search_scores")
def agreement(work: Workspace[AgreementSettings]) -> None:
    """Writes AGREEMENTS and, as side table, CONFIDENCES.

    Inputs: `judgments:<tag>` for every judge, and `labels`, a sheet filled in by people, where there is one.
    """
    tags = [name.removeprefix(JUDGMENTS) for name in work.inputs if name.startswith(JUDGMENTS)]
    sources = [source for tag in sorted(tags) for source in _sources(tag, work.dataset(JUDGMENTS + tag))]
    if "labels" in work.inputs:
        labels = work.release("labels")
        sources.append(Source(HUMAN, HUMAN, 0, read_labels(labels.directory / labels.files[0].name), {}))
    for shard in work.pending(["agreement"]):
        with shard:
            pairs = [pair for pair in combinations(sources, 2) if _kind(*pair)]
            rows = [row for first, second in pairs if (row := _compare(first, second))]
            write_rows(shard.file("part-00000.parquet"), AGREEMENTS, rows)
            write_rows(shard.file("confidences-00000.parquet"), CONFIDENCES, _confidences(sources))
            shard.counts.read = shard.counts.kept = len(pairs)


def _sources(tag: str, judgments: Dataset) -> Iterator[Source]:
    columns = ["query_key", "doc_key", "attempt", "score", "confidence"]
    rows = [row for row in judgments.table(columns=columns).to_pylist() if row["score"] is not None]
    attempts = judgments.manifest.settings(judge_stage).attempts
    for attempt in range(attempts):
        of_attempt = {JudgedPaper(row["query_key"], row["doc_key"]): row for row in rows if row["attempt"] == attempt}
        yield Source(
            name=tag if attempts == 1 else f"{tag}#{attempt}",
            judge=tag,
            attempt=attempt,
            scores={paper: row["score"] for paper, row in of_attempt.items()},
            confidences={p: row["confidence"] for p, row in of_attempt.items() if row["confidence"] is not None},
        )


def _kind(first: Source, second: Source) -> str | None:
    """Returns the kind of comparison that two sources allow; None if another pair already tells the same."""
    if first.judge == second.judge:
        return "repeat" if first.attempt == 0 else None
    if first.attempt or second.attempt:
        return None
    return HUMAN if HUMAN in (first.judge, second.judge) else "judges"


def _compare(first: Source, second: Source) -> AgreementRow | None:
    both = sorted(first.scores.keys() & second.scores.keys())
    if not both:
        return None
    a, b = ([source.scores[paper] for paper in both] for source in (first, second))
    apart = np.subtract(a, b)
    return AgreementRow(
        str(_kind(first, second)),
        first.name,
        second.name,
        papers=len(both),
        equal=float((apart == 0).mean()),
        close=float((np.abs(apart) <= 1).mean()),
        difference=float(apart.mean()),
        kappa=weighted_kappa(a, b, LEVELS),
        alpha=krippendorff_alpha(np.array([a, b], np.float64)),
    )


def _confidences(sources: list[Source]) -> Iterator[ConfidenceRow]:
    """Yields the mean disagreement for each confidence of a judge's first attempt."""
    for judge in (source for source in sources if source.attempt == 0 and source.confidences):
        apart: dict[tuple[int, str], list[int]] = {}
        for other in sources:
            kind = _kind(judge, other) if other is not judge else None
            for paper in judge.confidences.keys() & other.scores.keys() if kind else ():
                difference = abs(judge.scores[paper] - other.scores[paper])
                apart.setdefault((judge.confidences[paper], str(kind)), []).append(difference)
        for (confidence, kind), differences in sorted(apart.items()):
            yield ConfidenceRow(judge.judge, confidence, kind, len(differences), sum(differences) / len(differences))
