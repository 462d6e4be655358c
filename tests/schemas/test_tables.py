"""Declared tables: rows are checked against them, and their page is up to date."""

from pathlib import Path

import pyarrow as pa
import pytest

from schemas.errors import BadInput
from schemas.table import Column, Table, all_tables, declare
from schemas.tables.qrels import QRELS
from schemas.tables_page import tables_page


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


def test_a_name_is_taken_once() -> None:
    with pytest.raises(ValueError, match="two tables are named qrels"):
        declare(Table("qrels", "Another.", (Column("x", pa.int8(), "x"),)))


def test_the_page_of_tables_is_up_to_date() -> None:
    page = Path(__file__).parents[2] / "infra" / "TABLES.md"
    assert page.read_text() == tables_page(), "run: python -m schemas.tables_page > infra/TABLES.md"
