"""Questions over papers: what systems see, and apart from it what scores their answers."""

import pyarrow as pa

from schemas.table import Column, Table, declare

UUID = Column("uuid", pa.string(), "UUID of the question")

PAPERQA_QUESTIONS = declare(
    Table(
        "paperqa_questions",
        "A question as a system sees it.",
        (
            UUID,
            Column("question", pa.string(), "The question"),
            Column("answer_format", pa.string(), "What an answer should look like; may be empty"),
            Column("anchor_pdf", pa.list_(pa.string()), "Papers that the question names"),
            Column("conference", pa.list_(pa.string()), "Search space, for example acl2023"),
        ),
        key=("uuid",),
    )
)

PAPERQA_ANNOTATIONS = declare(
    Table(
        "paperqa_annotations",
        "The hidden part of a question; no system reads this file.",
        (
            UUID,
            Column("tags", pa.list_(pa.string()), "Task, element and evaluation tags"),
            Column("reference_pdf", pa.list_(pa.string()), "Hidden evidence"),
            Column("evaluator", pa.string(), "JSON: eval_func and eval_kwargs"),
            Column("reasoning_steps", pa.list_(pa.string()), "Hints that lead to the answer"),
            Column("annotator", pa.string(), "Origin", nullable=True),
        ),
        key=("uuid",),
    )
)
