"""Relevance judgments in the TREC sense, derived from the surveys' references."""

from typing import Annotated, NamedTuple

import pyarrow as pa

from schemas.table import Column, Table, declare


class QrelRow(NamedTuple):
    """One relevant document of a topic."""

    topic_id: Annotated[int, Column(pa.int64(), "corpus_id of the survey")]
    corpus_id: Annotated[int, Column(pa.int64(), "The relevant document")]
    relevance: Annotated[int, Column(pa.int8(), "2: influential reference; 1: any other reference")]


QRELS = declare(Table("qrels", QrelRow, key=("topic_id", "corpus_id"), order=("topic_id", "corpus_id")))
