"""What was counted when a run of a system from outside was checked."""

from typing import Annotated, NamedTuple

import pyarrow as pa

from schemas.table import Column, Table, declare

TOPIC = Column(pa.string(), "corpus_id of the survey, or UUID of the question")


class SubmissionRow(NamedTuple):
    """What a system from outside handed in for one topic, as it was counted, and what the system says that it took."""

    topic: Annotated[str, TOPIC]
    handed_in: Annotated[bool, Column(pa.bool_(), "False: nothing was handed in for the topic")]
    accepted: Annotated[int, Column(pa.int32(), "Documents of the ranking, else nodes of the tree, else answers")]
    unavailable: Annotated[int, Column(pa.int32(), "Removed: documents that do not exist or that no system may see")]
    duplicate: Annotated[int, Column(pa.int32(), "Removed: documents that stand further up in the ranking")]
    outside: Annotated[int, Column(pa.int32(), "Accepted documents that the desk never returned to the topic")]
    input_tokens: Annotated[int, Column(pa.int64(), "Tokens read, as the system says", unit="tokens")]
    output_tokens: Annotated[int, Column(pa.int64(), "Tokens written, as the system says", unit="tokens")]
    usd: Annotated[float, Column(pa.float64(), "Price, as the system says", unit="USD")]
    seconds: Annotated[float, Column(pa.float64(), "Time, as the system says", unit="s")]


SUBMISSIONS = declare(Table("submissions", SubmissionRow, key=("topic",), order=("topic",)))


class OutsideDocumentRow(NamedTuple):
    """An accepted document of a ranking that the desk never returned to the topic: the system has it from outside."""

    topic_id: Annotated[int, Column(pa.int64(), "corpus_id of the survey")]
    corpus_id: Annotated[int, Column(pa.int64(), "The document")]


OUTSIDE_DOCUMENTS = declare(
    Table("outside_documents", OutsideDocumentRow, key=("topic_id", "corpus_id"), order=("topic_id",))
)
