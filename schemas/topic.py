"""A topic as a system sees it, and the documents that it gets back."""

from datetime import date
from typing import NamedTuple

from schemas.identifiers import CorpusId


class Topic(NamedTuple):
    """An information need: the title of a survey, nothing else of it.

    `topic_id` is the survey's corpus_id (so that it can be kept out of its own results); `horizon` is the date before
    which a document must be published.
    """

    topic_id: CorpusId
    title: str
    horizon: date


class Hit(NamedTuple):
    """One retrieved document: higher score first, ties by ascending corpus_id."""

    corpus_id: CorpusId
    score: float
