"""Papers with "survey" in their titles that no selector judged, each with the rule that left it out."""

from typing import Annotated, NamedTuple

import pyarrow as pa

from schemas.table import Column, Table, declare


class DroppedCandidateRow(NamedTuple):
    """One paper whose title passed the filter and which is no candidate."""

    corpus_id: Annotated[int, Column(pa.int64(), "Semantic Scholar's id of the paper")]
    title: Annotated[str, Column(pa.string(), "Title as in `papers`")]
    reason: Annotated[str, Column(pa.string(), "`no_full_text`, `no_references`, `not_english`")]
    language: Annotated[
        str | None, Column(pa.string(), "Of a paper that is not in English: the language, or `other script`")
    ]


DROPPED_CANDIDATES = declare(Table("dropped_candidates", DroppedCandidateRow, key=("corpus_id",), order=("corpus_id",)))
