"""References of accepted surveys, linked by two paths: bibliography spans and the citations table."""

from typing import Annotated, NamedTuple

import pyarrow as pa

from schemas.table import Column, Table, declare


class ReferenceRow(NamedTuple):
    """One reference of a survey: a cited paper, or a bibliography entry that nobody could match."""

    survey_id: Annotated[int, Column(pa.int64(), "The survey that cites")]
    cited_id: Annotated[int | None, Column(pa.int64(), "The paper cited; null: entry without a match")]
    entries: Annotated[
        int, Column(pa.int32(), "Bibliography entries that stand behind this row (0: citations table alone)")
    ]
    mentions: Annotated[int | None, Column(pa.int32(), "Mentions of those entries in the body")]
    in_bibliography: Annotated[bool, Column(pa.bool_(), "Linked by the full text's bibliography")]
    in_citations: Annotated[bool, Column(pa.bool_(), "Linked by the citations table")]
    is_influential: Annotated[bool | None, Column(pa.bool_(), "Semantic Scholar's flag; null: not known")]
    linking: Annotated[
        str,
        Column(
            pa.string(),
            "`both`, `bibliography_only`, `citations_only` (the two paths disagree, or one is absent), `unmatched`",
        ),
    ]
    used: Annotated[bool, Column(pa.bool_(), "It counts as a reference: the edition's source of links has it")]


REFERENCES = declare(Table("references", ReferenceRow, key=("survey_id", "cited_id"), order=("survey_id", "cited_id")))
