"""Declared tables: rows are checked against them."""

from typing import Annotated, NamedTuple

import pyarrow as pa
import pytest

from schemas.errors import BadInput
from schemas.table import Column, Table, all_tables, declare
from schemas.tables.qrels import QRELS


def test_rows_are_taken_by_name_and_cast_without_loss() -> None:
    rows = pa.table({"relevance": [2], "corpus_id": [7], "topic_id": [1]})
    assert QRELS.conform(rows).schema.equals(QRELS.arrow, check_metadata=True)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"topic_id": [1], "corpus_id": [2]}, "expected"),
        ({"topic_id": [1], "corpus_id": [2], "relevance": [1], "extra": [0]}, "expected"),
        ({"topic_id": [1], "corpus_id": [2], "relevance": [300]}, "out of bounds|not in range"),
        ({"topic_id": [1], "corpus_id": [2], "relevance": [1.5]}, "truncated"),
        ({"topic_id": [1], "corpus_id": [None], "relevance": [1]}, "corpus_id.*null"),
        ({"topic_id": ["x"], "corpus_id": [2], "relevance": [1]}, "table qrels"),
    ],
)
def test_rows_that_do_not_conform_are_refused(rows: dict[str, list[object]], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        QRELS.conform(pa.table(rows))


def test_keys_and_orders_name_columns() -> None:
    for table in all_tables().values():
        assert {*table.key, *table.order} <= set(table.arrow.names), table.name


class Another(NamedTuple):
    """Another."""

    x: Annotated[int, Column(pa.int8(), "x")]


class Reading(NamedTuple):
    """A reading."""

    place: Annotated[int, Column(pa.int32(), "Where", unit="m")]
    note: Annotated[str | None, Column(pa.string(), "Why")]


def test_rows_become_a_table_and_come_back() -> None:
    readings = Table("readings", Reading)
    rows = [Reading(1, None), Reading(2, "late")]
    assert readings.of(rows).schema.equals(readings.arrow, check_metadata=True)
    assert readings.rows(readings.of(rows)) == rows
    assert readings.of([]).num_rows == 0
    with pytest.raises(BadInput, match="table readings"):
        readings.of([Reading("x", None)])  # pyright: ignore[reportArgumentType]


def test_null_is_allowed_where_the_annotation_says_so() -> None:
    assert [field.nullable for field in Table("readings", Reading).arrow] == [False, True]


def test_a_name_is_taken_once() -> None:
    with pytest.raises(ValueError, match="two tables are named qrels"):
        declare(Table("qrels", Another))
