"""Recorded results: three formats, keys with and without test set, and what is wrong with such files."""

from pathlib import Path

import polars as pl
import pytest

from schemas.errors import BadInput
from schemas.search import Found
from tasks.search.engines.file import RecordedResults

KEYS = ("ai/q0", "ai/q1", "other/q1", "other/q2")

ROWS = pl.DataFrame(
    {
        "query_key": ["ai/q0", "ai/q0", "q2", "nobody/q7"],
        "rank": [3, 1, 1, 1],
        "title": ["Late <b>", "First", None, "Unknown"],
        "abstract": [None, 'A, "quoted"\nabstract', "x", "y"],
        "id": ["doi:10.1/a", "", None, None],
        "score": [0.5, None, 2.0, 1.0],
    }
)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_rows_are_answered_in_the_order_of_their_ranks(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"results{suffix}"
    {".csv": ROWS.write_csv, ".jsonl": ROWS.write_ndjson, ".parquet": ROWS.write_parquet}[suffix](path)
    results = RecordedResults(path, KEYS)
    assert results.look_up("ai/q0", 5) == [
        Found("First", 'A, "quoted"\nabstract'),
        Found("Late <b>", "", "doi:10.1/a", "", 0.5),
    ], "the gap between ranks 1 and 3 is closed"
    assert results.look_up("ai/q0", 1) == [Found("First", 'A, "quoted"\nabstract')]
    assert results.look_up("other/q2", 5) == [Found("", "x", "", "", 2.0)]
    assert results.look_up("ai/q1", 5) == []


def csv(tmp_path: Path, *lines: str, header: str = "query_key,rank,title") -> Path:
    path = tmp_path / "results.csv"
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (("ai/q0,1,A", "ai/q0,1,B"), r"rank 1 of query ai/q0 \(2 rows\)"),
        (("ai/q0,1,A", "ai/q0,,B"), "1 rows have no rank.*ai/q0"),
        (("ai/q0,0,A",), "from 1 upwards"),
        (("ai/q0,1.5,A",), "from 1 upwards"),
        (("ai/q0,first,A",), "no rank"),
        (("q1,1,A",), "several test sets; write ai/q1 or other/q1"),
        (("q0,1,A", "ai/q0,2,B"), "with and without"),
        (("x,1,A",), "none of its query keys.*'x'"),
        ((), "none of its query keys"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, lines: tuple[str, ...], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        RecordedResults(csv(tmp_path, *lines), KEYS)


def test_files_that_are_no_results_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no column rank"):
        RecordedResults(csv(tmp_path, "ai/q0,A", header="query_key,title"), KEYS)
    for name, content, message in (
        ("r.jsonl", '{"query_key": "ai/q0", "rank": 1, "title": ["a", "b"]}\n', "lists or objects"),
        ("r.jsonl", "{broken\n", "cannot be read as results"),
        ("r.parquet", "PAR1", "cannot be read as results"),
        ("r.txt", "x", "must end with"),
    ):
        (tmp_path / name).write_text(content)
        with pytest.raises(BadInput, match=message):
            RecordedResults(tmp_path / name, KEYS)
    with pytest.raises(BadInput, match="cannot be read as results"):
        RecordedResults(tmp_path / "absent.csv", KEYS)


def test_a_hundred_thousand_rows(tmp_path: Path) -> None:
    numbers = range(100_000)
    rows = pl.DataFrame(
        {
            "query_key": [f"big/q{i // 100}" for i in numbers],
            "rank": [i % 100 + 1 for i in numbers],
            "title": [f"Paper {i}" for i in numbers],
        }
    )
    rows.sample(fraction=1.0, shuffle=True, seed=1).write_csv(tmp_path / "big.csv")
    keys = tuple(f"big/q{i}" for i in range(1000))
    results = RecordedResults(tmp_path / "big.csv", keys)
    assert [f.title for f in results.look_up("big/q999", 20)] == [f"Paper {99_900 + i}" for i in range(20)]
    assert sum(len(results.look_up(key, 100)) for key in keys) == 100_000
