"""References of accepted surveys, linked by two paths: bibliography spans and the citations table."""

import pyarrow as pa

from schemas.table import Column, Table, declare

REFERENCES = declare(
    Table(
        "references",
        "One reference of a survey: a cited paper, or a bibliography entry that nobody could match.",
        (
            Column("survey_id", pa.int64(), "The survey that cites"),
            Column("cited_id", pa.int64(), "The paper cited; null: entry without a match", nullable=True),
            Column("entries", pa.int32(), "Bibliography entries that stand behind this row (0: citations table alone)"),
            Column("mentions", pa.int32(), "Mentions of those entries in the body", nullable=True),
            Column("in_bibliography", pa.bool_(), "Linked by the full text's bibliography"),
            Column("in_citations", pa.bool_(), "Linked by the citations table"),
            Column("is_influential", pa.bool_(), "Semantic Scholar's flag; null: not known", nullable=True),
            Column(
                "linking",
                pa.string(),
                "`both`, `bibliography_only`, `citations_only` (the two paths disagree, or one is absent), `unmatched`",
            ),
        ),
        key=("survey_id", "cited_id"),
        order=("survey_id", "cited_id"),
    )
)
