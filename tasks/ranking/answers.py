"""Asks a system for one topic and turns its answer into a valid ranking; settings of a system."""

import math
from collections.abc import Sequence
from itertools import groupby
from typing import Literal, NamedTuple, get_args

import numpy as np
from pydantic import Field

from schemas.errors import BadInput, MissingDependency, ModelError, TransientError
from schemas.identifiers import CorpusId, Outcome
from schemas.identifiers import Field as DocumentField
from schemas.llm import ModelName
from schemas.settings import BaselineName, OwnSettings, RetrieverName, TopicSubset
from schemas.topic import Hit, Topic
from tasks.llm.subjects import NOTE_LENGTH, attempt
from tasks.ranking.baseline import Kit, System

NOT_THE_SYSTEM = (TransientError, MissingDependency, ModelError)
"""Errors that say nothing about a system: they end the stage."""


class SystemSettings(TopicSubset):
    """Which system runs, and over what."""

    baseline: BaselineName
    baseline_version: int = Field(ge=1, description="Of the registered baseline: a changed system is another run.")
    retriever: RetrieverName
    field: DocumentField
    cutoff: int = Field(default=100, ge=1, le=10_000, description="Rank depth of the run.")
    references: Literal["corpus", "oracle"] = Field(
        default="corpus", description="Search all documents, or the survey's own references alone (to organise them)."
    )
    model: ModelName | None = Field(default=None, description="Which model the baseline asks; empty: none.")
    own: OwnSettings | None = Field(
        default=None, exclude_if=lambda own: own is None, description="Settings of this system alone; empty: none."
    )
    tag: str = Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.@+-]*$", description="Name of the run.")


class Answer(NamedTuple):
    """A system's valid answer for a topic: documents with strictly decreasing scores, outcome, note and outline."""

    hits: list[Hit]
    outcome: Outcome
    note: str | None
    fallback: bool
    outline: str | None = None


def answer_topic(system: System, topic: Topic, kit: Kit) -> Answer:
    """Asks a system; whatever goes wrong in it, or in its answer, is an outcome of this topic alone.

    Raises:
        TransientError: A service failed for now, which says nothing about the system.
        MissingDependency: The system cannot run on this machine.
        ModelError: The model that the system asks cannot be used.
    """

    def ask() -> Answer:
        ranking = system(topic, kit)
        if ranking.outcome not in get_args(Outcome):
            raise BadInput(f"the system ended with outcome {ranking.outcome!r}; choose of {get_args(Outcome)}")
        hits = rank_hits(ranking.hits, kit.cutoff)
        kit.desk.require_allowed([hit.corpus_id for hit in hits])
        outcome = "empty" if ranking.outcome == "scored" and not hits else ranking.outcome
        note = ranking.note[:NOTE_LENGTH] if ranking.note else None
        return Answer(hits, outcome, note, ranking.fallback, ranking.outline)

    found = attempt(f"topic {topic.topic_id}", ask, reraise=NOT_THE_SYSTEM)
    return found if isinstance(found, Answer) else Answer([], *found, fallback=False)


def rank_hits(hits: Sequence[Hit], cutoff: int) -> list[Hit]:
    """Returns the first `cutoff` different documents of a list, with scores that sort into the same order in any tool.

    Neighbours with equal scores are sorted by corpus_id. Scores are kept when they then decrease strictly as 32-bit
    floats, which is all that trec_eval reads; otherwise the score is the negated rank.

    Args:
        hits: Best first; of a document that occurs twice, the first place counts.
        cutoff: Number of documents, >= 1.

    Raises:
        BadInput: A score is not finite.
    """
    scores: dict[CorpusId, float] = {}
    for corpus_id, score in hits:
        if not math.isfinite(score):
            raise BadInput(f"document {corpus_id} has score {score}; scores are finite numbers")
        scores.setdefault(CorpusId(int(corpus_id)), float(score))
    runs_of_ties = groupby(scores.items(), key=lambda item: item[1])
    ordered = [Hit(*item) for _, tied in runs_of_ties for item in sorted(tied)][:cutoff]
    with np.errstate(over="ignore"):
        held = np.array([hit.score for hit in ordered]).astype(np.float32)
    if (held[1:] < held[:-1]).all():
        return ordered
    return [Hit(hit.corpus_id, -float(rank)) for rank, hit in enumerate(ordered, 1)]
