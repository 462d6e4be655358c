"""The page on fidelity: every row says whether it is the same, and names a test that exists or gives a reason."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "fidelity.md"
ROWS = [
    [cell.strip() for cell in line.strip().strip("|").split("|")]
    for line in PAGE.read_text("utf-8").splitlines()
    if line.startswith("| ") and "---" not in line and "Same | Why" not in line
]


@cache
def functions(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_a_row_has_a_verdict_and_a_test_that_exists_or_a_reason(row: list[str]) -> None:
    assert len(row) == 4 and row[2] in ("yes", "no", "chosen")
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", row[3])
    for path, function in named:
        assert not function or function in functions(path), f"{path}::{function}"
        assert (ROOT / path).exists()
    assert named or len(row[3].split()) >= 5
    assert row[2] == "yes" or "::" in row[3] or len(row[3].split()) >= 5


def test_all_three_sources_are_covered() -> None:
    headings = re.findall(r"^## (\w+ ?\w*)", PAGE.read_text("utf-8"), re.MULTILINE)
    assert {heading.split()[0] for heading in headings} == {"ResearchArena", "Paper", "AirQA"}
    assert len(ROWS) > 70
