"""Relevance judgments in the TREC sense, derived from the surveys' references."""

import pyarrow as pa

from schemas.table import Column, Table, declare

QRELS = declare(
    Table(
        "qrels",
        "One relevant document of a topic.",
        (
            Column("topic_id", pa.int64(), "corpus_id of the survey"),
            Column("corpus_id", pa.int64(), "The relevant document"),
            Column("relevance", pa.int8(), "2: influential reference; 1: any other reference"),
        ),
        key=("topic_id", "corpus_id"),
        order=("topic_id", "corpus_id"),
    )
)
