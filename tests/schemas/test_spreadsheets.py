"""CSV for people: no foreign text becomes a formula, and every writer of CSV goes through the one guard."""

import csv
import io
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.spreadsheets import read_cell, to_csv
from tasks.reports.blocks import TableBlock
from tasks.reports.render import to_csv as table_to_csv

ROOT = Path(__file__).parents[2]
FORMULAS = ("=HYPERLINK(1)", "+1+1", "-2+3", "@SUM(1)", "\t=1", "\n=1", " =1", "\uff1dcmd|' /C calc'!A0")


@pytest.mark.parametrize("text", FORMULAS)
def test_a_text_that_begins_like_a_formula_becomes_text(text: str) -> None:
    ((cell, number, plain),) = csv.reader(io.StringIO(to_csv([(text, -1.5, "a=1")]), newline=""))
    assert cell == f"'{text}"
    assert (number, plain) == ("-1.5", "a=1")


def test_a_carriage_return_begins_no_row() -> None:
    assert list(csv.reader(io.StringIO(to_csv([("x\r=1+1", "y\r\nz")]), newline=""))) == [["x\n=1+1", "y\nz"]]


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00\r")))
def test_a_cell_reads_back_as_it_was(text: str) -> None:
    if not re.match(
        "' *[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]", text
    ):  # nobody can tell its apostrophe from the guard's
        ((cell, _),) = csv.reader(io.StringIO(to_csv([(text, "x")]), newline=""))
        assert read_cell(cell) == text


def test_tables_of_reports_hold_no_formula() -> None:
    table = TableBlock("search_worst_1", "=1+1", ("=title", "score"), (("=HYPERLINK(1)", -0.5),))
    assert table_to_csv(table).splitlines() == ["'=title,score", "'=HYPERLINK(1),-0.5"]


def test_no_other_module_writes_csv() -> None:
    writers = re.compile(r"csv\.(Dict)?[wW]riter|write_csv|\.to_csv\([^)]*(path|file)|from csv import")
    found = {
        str(path.relative_to(ROOT))
        for room in ("schemas", "tasks", "flows")
        for path in (ROOT / room).rglob("*.py")
        if writers.search(path.read_text())
    }
    assert found == {"schemas/spreadsheets.py"}
