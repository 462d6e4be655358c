"""Questions over papers: what systems see, and apart from it what scores their answers."""

from typing import Annotated, NamedTuple

import pyarrow as pa

from schemas.table import Column, Table, declare

UUID = Column(pa.string(), "UUID of the question")


class PaperqaQuestionRow(NamedTuple):
    """A question as a system sees it."""

    uuid: Annotated[str, UUID]
    question: Annotated[str, Column(pa.string(), "The question")]
    answer_format: Annotated[str, Column(pa.string(), "What an answer should look like; may be empty")]
    anchor_pdf: Annotated[list[str], Column(pa.list_(pa.string()), "Papers that the question names")]
    conference: Annotated[list[str], Column(pa.list_(pa.string()), "Search space, for example acl2023")]


PAPERQA_QUESTIONS = declare(Table("paperqa_questions", PaperqaQuestionRow, key=("uuid",)))


class PaperqaAnnotationRow(NamedTuple):
    """The hidden part of a question; no system reads this file."""

    uuid: Annotated[str, UUID]
    tags: Annotated[list[str], Column(pa.list_(pa.string()), "Task, element and evaluation tags")]
    reference_pdf: Annotated[list[str], Column(pa.list_(pa.string()), "Hidden evidence")]
    evaluator: Annotated[str, Column(pa.string(), "JSON: eval_func and eval_kwargs")]
    reasoning_steps: Annotated[list[str], Column(pa.list_(pa.string()), "Hints that lead to the answer")]
    annotator: Annotated[str | None, Column(pa.string(), "Origin")]


PAPERQA_ANNOTATIONS = declare(Table("paperqa_annotations", PaperqaAnnotationRow, key=("uuid",)))
