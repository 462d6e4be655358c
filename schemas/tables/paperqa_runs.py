"""What a system answered to questions over papers, and how it came to its answers."""

from typing import Annotated, NamedTuple

import pyarrow as pa

from schemas.table import Column, Table, declare
from schemas.tables.paperqa_questions import UUID

TAG = Column(pa.string(), "Name of the run")


class PaperqaAnswerRow(NamedTuple):
    """A system's answer to one question."""

    tag: Annotated[str, TAG]
    uuid: Annotated[str, UUID]
    answer: Annotated[str | None, Column(pa.string(), "Text that is scored; null unless the outcome is `answered`")]
    outcome: Annotated[str, Column(pa.string(), "How it ended; see `schemas.paperqa.AnswerOutcome`")]
    note: Annotated[str | None, Column(pa.string(), "Why, when there is no answer; papers that the library lacks")]
    turns: Annotated[int, Column(pa.int32(), "Replies of the model")]
    input_tokens: Annotated[int, Column(pa.int64(), "Tokens read", unit="tokens")]
    output_tokens: Annotated[int, Column(pa.int64(), "Tokens written", unit="tokens")]
    cost_usd: Annotated[float, Column(pa.float64(), "Price of all calls", unit="USD")]


PAPERQA_ANSWERS = declare(Table("paperqa_answers", PaperqaAnswerRow, key=("tag", "uuid")))


class PaperqaStepRow(NamedTuple):
    """One step of a trajectory."""

    uuid: Annotated[str, UUID]
    turn: Annotated[int, Column(pa.int32(), "From 1")]
    action: Annotated[str | None, Column(pa.string(), "Name of the action; null: the reply held none")]
    arguments: Annotated[str, Column(pa.string(), "Arguments as JSON, or what the model wrote instead")]
    observation: Annotated[str, Column(pa.string(), "What came back; long ones are cut")]
    images: Annotated[int, Column(pa.int32(), "Pictures that came back")]


PAPERQA_STEPS = declare(Table("paperqa_steps", PaperqaStepRow, key=("uuid", "turn")))


class PaperqaLookupRow(NamedTuple):
    """One use of the library by a system."""

    uuid: Annotated[str, UUID]
    place: Annotated[int, Column(pa.int32(), "From 1")]
    tool: Annotated[str, Column(pa.string(), "`dense`, `bm25`, `sql`, `page`, `paper`")]
    request: Annotated[str, Column(pa.string(), "Query, SQL, or page")]
    returned: Annotated[int, Column(pa.int32(), "Passages, rows or pages that came back")]
    papers: Annotated[list[str], Column(pa.list_(pa.string()), "Papers that passages or pages came from")]


PAPERQA_LOOKUPS = declare(Table("paperqa_lookups", PaperqaLookupRow, key=("uuid", "place")))
