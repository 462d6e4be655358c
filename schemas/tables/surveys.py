"""Candidates of the title filter with the selector's verdict: every later stage takes `is_survey` from here."""

from typing import Annotated, NamedTuple

import pyarrow as pa

from schemas.table import Column, Table, declare


class SurveyRow(NamedTuple):
    """One paper whose title passed the filter, accepted as a literature survey or not."""

    corpus_id: Annotated[int, Column(pa.int64(), "Semantic Scholar's id of the paper")]
    title: Annotated[str, Column(pa.string(), "Title as in `papers`")]
    text_digest: Annotated[bytes, Column(pa.binary(16), "First 16 bytes of the sha256 of title, U+001F and abstract")]
    accepted: Annotated[bool, Column(pa.bool_(), "The selector's verdict")]
    reason: Annotated[str, Column(pa.string(), "Why, in a few words")]
    selector: Annotated[str, Column(pa.string(), "Which selector decided")]
    model: Annotated[str | None, Column(pa.string(), "Model that was asked")]
    prompt_id: Annotated[str | None, Column(pa.string(), "Prompt that was used, with its version")]
    outcome: Annotated[
        str, Column(pa.string(), "`ok`; of a model also `failed` or `refused`: no verdict, not accepted")
    ]


SURVEYS = declare(Table("surveys", SurveyRow, key=("corpus_id",), order=("corpus_id",)))
