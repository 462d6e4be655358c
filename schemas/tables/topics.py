"""Topics: accepted surveys as information needs, kept or excluded with the reason."""

from datetime import date
from typing import Annotated, NamedTuple

import pyarrow as pa

from schemas.table import Column, Table, declare


class TopicRow(NamedTuple):
    """One accepted survey; only rows with outcome `kept` are evaluated."""

    topic_id: Annotated[int, Column(pa.int64(), "corpus_id of the survey")]
    title: Annotated[str, Column(pa.string(), "The information need: all that a system is told")]
    horizon: Annotated[date | None, Column(pa.date32(), "Documents must be published before it")]
    horizon_precision: Annotated[str, Column(pa.string(), "`day`, `month`, `year` or `none`")]
    fields_of_study: Annotated[list[str], Column(pa.list_(pa.string()), "Of the survey")]
    references: Annotated[int, Column(pa.int32(), "All references, matched or not")]
    linked: Annotated[int, Column(pa.int32(), "References with a corpus_id")]
    accessible: Annotated[int, Column(pa.int32(), "Linked references that are documents of the corpus")]
    relevant: Annotated[int, Column(pa.int32(), "Accessible references left after the leakage rules: its qrels")]
    influential: Annotated[int, Column(pa.int32(), "Of those, the influential ones")]
    coverage: Annotated[float | None, Column(pa.float64(), "accessible / references")]
    outcome: Annotated[str, Column(pa.string(), "`kept`, `no_references`, `none_accessible`, `no_date`, `none_left`")]


TOPICS = declare(Table("topics", TopicRow, key=("topic_id",), order=("topic_id",)))
