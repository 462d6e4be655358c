"""What a system returned: ranked documents, the searches behind them, and how it ended on each topic."""

from typing import Annotated, NamedTuple

import pyarrow as pa

from schemas.table import Column, Table, declare


class RunRow(NamedTuple):
    """One retrieved document of a topic."""

    topic_id: Annotated[int, Column(pa.int64(), "corpus_id of the survey")]
    corpus_id: Annotated[int, Column(pa.int64(), "The retrieved document")]
    rank: Annotated[int, Column(pa.int32(), "Place in the list, from 1")]
    score: Annotated[float, Column(pa.float64(), "Strictly decreasing with rank")]
    tag: Annotated[str, Column(pa.string(), "Name of the run")]


RUNS = declare(Table("runs", RunRow, key=("tag", "topic_id", "corpus_id"), order=("topic_id", "rank")))


class SearchRow(NamedTuple):
    """One query that a system sent through its research desk."""

    topic_id: Annotated[int, Column(pa.int64(), "corpus_id of the survey")]
    position: Annotated[int, Column(pa.int32(), "Order of the query in the topic, from 0")]
    query: Annotated[str, Column(pa.string(), "Text as sent")]
    retriever: Annotated[str, Column(pa.string(), "Which retriever answered")]
    k: Annotated[int, Column(pa.int32(), "Documents asked for")]
    returned: Annotated[int, Column(pa.int32(), "Documents returned")]
    rounds: Annotated[int, Column(pa.int32(), "Times the search was widened, 1 for none")]
    depth: Annotated[int, Column(pa.int32(), "Length of the ranking that was looked at")]
    dropped_survey: Annotated[int, Column(pa.int32(), "Hits removed because they are surveys")]
    dropped_date: Annotated[int, Column(pa.int32(), "Hits removed because they are not published before the horizon")]
    dropped_self: Annotated[int, Column(pa.int32(), "Hits removed because they are the topic itself")]


SEARCHES = declare(Table("searches", SearchRow, key=("topic_id", "position"), order=("topic_id", "position")))


class StepRow(NamedTuple):
    """One thing that a system asked of its research desk, with the first papers that came back."""

    topic_id: Annotated[int, Column(pa.int64(), "corpus_id of the survey")]
    position: Annotated[int, Column(pa.int32(), "Order of the step in the topic, from 0")]
    search: Annotated[int | None, Column(pa.int32(), "`position` in `searches`; null: documents were read")]
    papers: Annotated[list[int], Column(pa.list_(pa.int64()), "The first papers that came back, best first")]
    returned: Annotated[int, Column(pa.int32(), "Papers that came back")]


STEPS = declare(Table("steps", StepRow, key=("topic_id", "position"), order=("topic_id", "position")))


class OutcomeRow(NamedTuple):
    """How a system ended on one topic."""

    topic_id: Annotated[int, Column(pa.int64(), "corpus_id of the survey")]
    outcome: Annotated[str, Column(pa.string(), "`scored`, `empty`, `failed`, `over_budget`, `refused`")]
    note: Annotated[str | None, Column(pa.string(), "Why, when it is not `scored`")]
    fallback: Annotated[bool, Column(pa.bool_(), "A fallback stood in for a failed model call")]


OUTCOMES = declare(Table("outcomes", OutcomeRow, key=("topic_id",), order=("topic_id",)))


class OutlineRow(NamedTuple):
    """The outline that a system wrote for a topic's survey while it searched."""

    topic_id: Annotated[int, Column(pa.int64(), "corpus_id of the survey")]
    outline: Annotated[str, Column(pa.string(), "Markdown headings")]


OUTLINES = declare(Table("outlines", OutlineRow, key=("topic_id",), order=("topic_id",)))
