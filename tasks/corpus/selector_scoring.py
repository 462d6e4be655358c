"""Scores a survey selector against human labels."""

import re
from pathlib import Path
from typing import Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel

from schemas.errors import BadInput
from tasks.corpus.survey_selector import TITLE_PATTERNS, Candidate, ModelConnection, SurveySelector, Word
from tasks.store.dataset import Dataset
from tasks.store.parquet import read_table

Label = Literal["yes", "no", "unsure"]


class LabelLine(BaseModel):
    """One line of a label file; other members of the line are ignored."""

    corpusid: int
    label: Label


class Disagreement(NamedTuple):
    """A labelled paper on which the selector disagrees with the label."""

    corpus_id: int
    title: str
    label: Label
    reason: str


class SelectorScore(NamedTuple):
    """Precision, recall and F1 of title filter and selector together.

    Labels that are `unsure` or belong to no paper (`absent`) are counted and enter no other number.
    """

    precision: float
    recall: float
    f1: float
    labelled: int
    unsure: int
    absent: int
    confusions: tuple[Disagreement, ...]


def score_selector(
    labels: Path,
    papers: Dataset,
    selector: SurveySelector,
    word: Word = "substring",
    connection: ModelConnection | None = None,
) -> SelectorScore:
    """Compares title filter and selector with human labels; a paper that fails the title filter counts as rejected.

    Args:
        labels: JSON lines `{"corpusid": int, "title": str, "label": "yes" | "no" | "unsure"}`.
        papers: Dataset of stage `papers`, from which titles and abstracts are read.
        selector: The selector to score.
        word: The title filter.
        connection: The model, for a selector that asks one.

    Raises:
        BadInput: The labels cannot be read, or none of them belongs to a paper of the dataset.
    """
    wanted = _read_labels(labels)
    found = {candidate.corpus_id: candidate for candidate in _read_candidates(papers, list(wanted))}
    decided = [i for i, label in wanted.items() if label != "unsure" and i in found]
    if not decided:
        raise BadInput(
            f"labels {labels}: none of the {len(wanted)} labels belongs to a paper of "
            f"{papers.ref.stage}/{papers.ref.key}; score against the edition for which they were made"
        )
    verdicts = dict(zip(decided, selector.select([found[i] for i in decided], connection), strict=True))
    accepted = {i for i in decided if verdicts[i].accepted and re.search(TITLE_PATTERNS[word], found[i].title)}
    surveys = {i for i in decided if wanted[i] == "yes"}
    hits = len(accepted & surveys)
    unsure = sum(label == "unsure" for label in wanted.values())
    return SelectorScore(
        precision=hits / max(1, len(accepted)),
        recall=hits / max(1, len(surveys)),
        f1=2 * hits / max(1, len(surveys) + len(accepted)),
        labelled=len(decided),
        unsure=unsure,
        absent=len(wanted) - unsure - len(decided),
        confusions=tuple(
            Disagreement(i, found[i].title, wanted[i], verdicts[i].reason)
            for i in decided
            if (i in accepted) != (i in surveys)
        ),
    )


def _read_labels(path: Path) -> dict[int, Label]:
    labels: dict[int, Label] = {}
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise BadInput(
            f"labels {path}: cannot be read ({error.strerror}); give the path of a file of labels"
        ) from error
    for number, line in enumerate(lines, 1):
        try:
            record = LabelLine.model_validate_json(line)
        except ValueError as error:
            raise BadInput(
                f"labels {path}, line {number}: expected corpusid and a label yes, no or unsure, found {line[:80]!r}; "
                "correct or remove the line"
            ) from error
        labels[record.corpusid] = record.label
    return labels


def _read_candidates(papers: Dataset, ids: list[int]) -> list[Candidate]:
    """Returns the papers among `ids` that have a title."""
    wanted = pc.field("corpus_id").isin(pa.array(ids, pa.int64())) & pc.field("title").is_valid()
    rows: list[Candidate] = []
    for path in papers.files():
        table = read_table(path, columns=list(Candidate._fields), filters=wanted)
        rows += [Candidate(**row) for row in table.to_pylist()]
    return rows
