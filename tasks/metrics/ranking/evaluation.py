"""From qrels and a run to every measure of every topic, exactly as trec_eval has them."""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Generic, Literal, TypedDict, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from schemas.errors import BadInput
from tasks.metrics.ranking.measure import Judged, all_measures

Labels = Literal["graded", "influential"]
"""How labels become gains: the label itself, or 1 for 2 and more and 0 for the rest."""

INFLUENTIAL = 2
"""Smallest label of an influential reference."""

_BLOCK = 1024
"""Topics that are held as one array: bounds memory, changes no value."""

Topic = TypeVar("Topic", bound=Hashable)
Document = TypeVar("Document", bound=Hashable)


class Evaluation(TypedDict, Generic[Topic]):
    """Values by measure.

    Attributes:
        per_topic: Every topic that is in the qrels and in the run and can be evaluated, in the order of the qrels.
        mean_all: Mean over all topics of the qrels that can be evaluated, 0 for one that the run lacks
            (`trec_eval -c`); None when there is none.
        mean_evaluated: Mean over the topics of `per_topic` (`trec_eval` without `-c`); None when there is none.
    """

    per_topic: dict[Topic, dict[str, float]]
    mean_all: dict[str, float] | None
    mean_evaluated: dict[str, float] | None


def evaluate_run(
    qrels: Mapping[Topic, Mapping[Document, int]],
    run: Mapping[Topic, Sequence[tuple[Document, float]]],
    labels: Labels = "graded",
) -> Evaluation[Topic]:
    """Scores ranked lists with every measure.

    The order of a list never matters, its scores do: held as 32-bit floats, as in trec_eval; descending, ties by
    document id descending as a byte string. A document that is there twice counts at its best score. An empty list
    scores 0. Topics of the run that the qrels lack are ignored. With `influential`, topics without an influential
    document cannot be evaluated and leave the means.

    Args:
        qrels: Label by document by topic; < 1 is not relevant, as is a document without label.
        run: (document, score) pairs by topic.
        labels: `graded` or `influential`.

    Raises:
        BadInput: Unknown `labels`, a label that is not an integer, a score that is not a number, a list that does not
            hold pairs.

    Source: trec_eval 9; ResearchArena (arXiv 2406.10291), section 5.
    """
    if labels not in get_args(Labels):
        raise BadInput(f"evaluate_run: labels={labels!r} is not known; choose one of {', '.join(get_args(Labels))}")
    gains = {topic: _gains(topic, judged, labels) for topic, judged in qrels.items()}
    topics = [topic for topic in gains if labels == "graded" or any(gains[topic].values())]
    evaluated = [topic for topic in topics if topic in run]
    values = _evaluate(
        [[gains[topic].get(document, 0) for document in _ranked(topic, run[topic])] for topic in evaluated],
        [sorted((gain for gain in gains[topic].values() if gain), reverse=True) for topic in evaluated],
    )
    columns = [column.tolist() for column in values.values()]
    return {
        "per_topic": {
            topic: dict(zip(values, row, strict=True)) for topic, *row in zip(evaluated, *columns, strict=True)
        },
        "mean_all": _means(values, len(topics)),
        "mean_evaluated": _means(values, len(evaluated)),
    }


def _gains(topic: object, judged: Mapping[Document, int], labels: Labels) -> dict[Document, int]:
    if wrong := [kind for kind in set(map(type, judged.values())) if not _is_number(kind, int, np.integer)]:
        raise BadInput(f"qrels, topic {topic}: a label is {wrong[0].__name__}; labels are integers (0, 1, 2)")
    if labels == "influential":
        return {document: int(label >= INFLUENTIAL) for document, label in judged.items()}
    return {document: max(label, 0) for document, label in judged.items()}


def _ranked(topic: object, hits: Sequence[tuple[Document, float]]) -> Iterable[Document]:
    """The documents of a list, each once, in trec_eval's order."""
    try:
        documents = [document for document, _ in hits]
        scores = [score for _, score in hits]
    except (TypeError, ValueError) as error:
        raise BadInput(f"run, topic {topic}: a list of (document, score) pairs is needed ({error})") from error
    if wrong := [kind for kind in set(map(type, scores)) if not _is_number(kind, int, float, np.integer, np.floating)]:
        raise BadInput(f"run, topic {topic}: a score is {wrong[0].__name__}; scores are numbers")
    with np.errstate(over="ignore"):
        held = np.asarray(scores, dtype=np.float64).astype(np.float32)
    if np.isnan(held).any():
        place = int(np.isnan(held).argmax())
        raise BadInput(
            f"run, topic {topic}: the score of document {documents[place]} is NaN; give it a number or drop it"
        )
    if (held[1:] < held[:-1]).all():
        return dict.fromkeys(documents)
    by_id = sorted(range(len(documents)), key=lambda place: str(documents[place]), reverse=True)
    order = sorted(by_id, key=held.__getitem__, reverse=True)
    return dict.fromkeys(documents[place] for place in order)


def _is_number(kind: type, *allowed: type) -> bool:
    return issubclass(kind, allowed) and kind is not bool


def _evaluate(retrieved: list[list[int]], relevant: list[list[int]]) -> dict[str, NDArray[np.float64]]:
    """Every measure of every list, `(n_lists,)` each."""
    blocks = [
        Judged(_padded(retrieved[start : start + _BLOCK]), _padded(relevant[start : start + _BLOCK]))
        for start in range(0, len(retrieved), _BLOCK)
    ]
    return {
        name: np.concatenate([np.zeros(0), *(function(block) for block in blocks)])
        for name, function in all_measures().items()
    }


def _padded(rows: list[list[int]]) -> NDArray[np.int64]:
    table = np.zeros((len(rows), max(map(len, rows), default=0)), dtype=np.int64)
    for row, values in zip(table, rows, strict=True):
        row[: len(values)] = values
    return table


def _means(values: dict[str, NDArray[np.float64]], topics: int) -> dict[str, float] | None:
    return {name: math.fsum(column) / topics for name, column in values.items()} if topics else None
