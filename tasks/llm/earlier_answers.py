"""Reads the answers of a dataset that is made again, so that only subjects with certain outcomes are asked again."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from schemas.table import AnyTable
from schemas.tables.model_calls import ModelCallRow
from tasks.llm.journal import Row, SubjectRows
from tasks.store.dataset import Dataset

FALLBACK = "fallback"
"""Outcome under which a stage counts a subject for which something stood in for a failed model call."""

ALSO_FAILED = frozenset({FALLBACK, "unscored"})
"""Outcomes that are asked again together with `failed`: `unscored` is an answer whose judge gave no verdict."""


def all_outcomes(again: Collection[str]) -> frozenset[str]:
    """Returns the outcomes that are asked again when these are named."""
    return frozenset(again) | (ALSO_FAILED if "failed" in again else frozenset())


def settled_answers(
    dataset: Dataset, tables: Mapping[str, AnyTable], key: Sequence[str], again: frozenset[str]
) -> dict[str, list[SubjectRows]]:
    """Returns the answers to keep, by the subject's name; of several subjects with one name in their order.

    Args:
        dataset: What the stage wrote.
        tables: The stage's tables, by the prefix of their files.
        key: Columns whose values, joined by blanks, are a subject's name.
        again: Outcomes of subjects to ask again.
    """
    rows: dict[str, list[Row]] = defaultdict(list)
    outcomes: dict[str, list[str]] = defaultdict(list)
    for prefix, table in tables.items():
        for row in table.rows(dataset.table(prefix)) if dataset.files(prefix) else ():
            name = row.subject if isinstance(row, ModelCallRow) else " ".join(str(getattr(row, part)) for part in key)
            rows[name].append(row)
            if not isinstance(row, ModelCallRow) and (outcome := getattr(row, "outcome", None)):
                outcomes[name].append(FALLBACK if getattr(row, FALLBACK, False) else outcome)
    return {
        name: [SubjectRows(rows[name] if not place else (), outcome) for place, outcome in enumerate(ended)]
        for name, ended in outcomes.items()
        if again.isdisjoint(ended)
    }
