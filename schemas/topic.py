"""The topic that a system gets, and the documents that it returns."""

from datetime import date
from typing import NamedTuple

from schemas.identifiers import CorpusId


class Topic(NamedTuple):
    """An information need: the title of a survey and nothing else of it.

    `topic_id` is the survey's corpus_id, which is excluded from its own results. Documents must be published before
    `horizon`.
    """

    topic_id: CorpusId
    title: str
    horizon: date


class Hit(NamedTuple):
    """One retrieved document: higher score first, ties by ascending corpus_id."""

    corpus_id: CorpusId
    score: float
