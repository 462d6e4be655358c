"""Candidates of the title filter with the selector's verdict: every later stage takes `is_survey` from here."""

import pyarrow as pa

from schemas.table import Column, Table, declare

SURVEYS = declare(
    Table(
        "surveys",
        "One paper whose title passed the filter, accepted as a literature survey or not.",
        (
            Column("corpus_id", pa.int64(), "Semantic Scholar's id of the paper"),
            Column("title", pa.string(), "Title as in `papers`"),
            Column(
                "text_digest",
                pa.binary(16),
                "First 16 bytes of the sha256 of title, U+001F and abstract",
            ),
            Column("accepted", pa.bool_(), "The selector's verdict"),
            Column("reason", pa.string(), "Why, in a few words"),
            Column("selector", pa.string(), "Which selector decided"),
            Column("model", pa.string(), "Model that was asked", nullable=True),
            Column("prompt_id", pa.string(), "Prompt that was used, with its version", nullable=True),
            Column("outcome", pa.string(), "`ok`; of a model also `failed` or `refused`: no verdict, not accepted"),
        ),
        key=("corpus_id",),
        order=("corpus_id",),
    )
)
