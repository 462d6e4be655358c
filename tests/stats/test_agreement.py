"""Agreement: formulas against references, judges against each other and people, sheets."""

import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from schemas.errors import BadInput
from tasks.search.judge_agreement import AgreementSettings, agreement
from tasks.search.judgment_sheets import read_labels, write_judgment_sheet
from tasks.search.queries import open_label_file
from tasks.stats.agreement import krippendorff_alpha, weighted_kappa
from tasks.store.store import Request
from tests.llm.scripted_server import Answer, ScriptedServer, Seen, completion
from tests.search.searching import Judging, shown, told

_ = float("nan")


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=40))
def test_kappa_equals_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    ours = weighted_kappa(first, second, 6)
    if len(set(first + second)) == 1:
        assert ours is None
    else:
        assert ours == pytest.approx(cohen_kappa_score(first, second, weights="quadratic", labels=list(range(6))))


def test_kappa_needs_levels_and_things() -> None:
    assert weighted_kappa([], [], 6) is None
    for first, second in (([1], []), ([6], [0]), ([-1], [0])):
        with pytest.raises(BadInput, match="weighted_kappa"):
            weighted_kappa(first, second, 6)


def test_alpha_of_the_published_example() -> None:
    """Four observers, twelve units, missing data: Krippendorff 2011, section C, interval metric."""
    observers = [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, _, _, _],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, _, 3],
        [_, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, _],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, _],
    ]
    assert krippendorff_alpha(np.array(observers)) == pytest.approx(0.849, abs=5e-4)


def test_alpha_by_hand_and_where_it_is_undefined() -> None:
    assert krippendorff_alpha(np.array([[0.0, 1.0], [0.0, 1.0]])) == 1
    # two units (0, 1) and (1, 0): observed 1; expected 2 * 2 * 2 / (4 * 3)
    assert krippendorff_alpha(np.array([[0.0, 1.0], [1.0, 0.0]])) == pytest.approx(1 - 1 / (8 / 12))
    assert krippendorff_alpha(np.array([[3.0, 3.0], [3.0, 3.0]])) is None
    assert krippendorff_alpha(np.array([[1.0, _], [_, 2.0]])) is None


def test_judges_are_compared_with_themselves_each_other_and_people(tmp_path: Path) -> None:
    server = ScriptedServer()
    judging = Judging(tmp_path, server, {"q0": "=graphs"})
    papers = [(f"A paper with number {i}", "-1+2", f"s2:{i}") for i in range(12)]
    judging.add("one", {"q0": papers})

    def judged(tag: str, shift: int, attempts: int = 1) -> None:
        def reply(seen: Seen, _: int) -> Answer:
            number = int(shown(seen, "title").split()[-1])
            return completion(told(min(5, number % 6 + shift), number % 3))

        server.play(reply)
        built[tag] = judging.judge(tag=tag, attempts=attempts, seed=shift).ref

    built = {}
    try:
        judged("same", 0, attempts=2)
        server.seen.clear()
        (tmp_path / "calls.sqlite").unlink()
        judged("higher", 1)
    finally:
        server.close()
    sheet = tmp_path / "sheet.csv"
    same = judging.store.open(built["same"])
    assert write_judgment_sheet(same, judging.store.open(judging.queries), sheet, papers=8) == 8
    rows = list(csv.DictReader(sheet.open(encoding="utf-8")))
    assert (rows[0]["query"], rows[0]["abstract"]) == ("'=graphs", "'-1+2"), "no cell is a formula"
    drawn = [int(row["title"].split()[-1]) % 6 for row in rows]
    assert set(drawn) == set(range(6)), "every level is drawn"
    for row, level in zip(rows[1:], drawn[1:], strict=True):
        row["label"] = str(level)
    with sheet.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    inputs = {f"judgments:{tag}": ref for tag, ref in built.items()} | {"labels": open_label_file(sheet)}
    dataset = judging.store.open(judging.store.build(Request(agreement, AgreementSettings(), inputs)).ref)
    found = {(row["first"], row["second"]): row for row in dataset.table().to_pylist()}
    repeat = found["same#0", "same#1"]
    assert (repeat["kind"], repeat["papers"], repeat["equal"], repeat["kappa"], repeat["alpha"]) == (
        "repeat",
        12,
        1,
        1,
        1,
    )
    judges = found["higher", "same#0"]
    assert (judges["kind"], judges["close"]) == ("judges", 1)
    assert judges["difference"] == pytest.approx(10 / 12)
    human = found["same#0", "human"]
    assert (human["papers"], human["equal"]) == (7, 1)
    assert found["higher", "human"]["equal"] < 1
    sure = dataset.table("confidences").to_pylist()
    assert {(row["judge"], row["against"]) for row in sure} == {
        ("same", "repeat"), ("same", "judges"), ("same", "human"), ("higher", "judges"), ("higher", "human"),
    }  # fmt: skip
    assert {row["confidence"] for row in sure} == {0, 1, 2}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("query_key,doc_key\na,b", "no column label"),
        ("query_key,doc_key,label\na,b,6", "line 2: label '6'"),
        ("query_key,doc_key,label\na,b,3.5", "label '3.5'"),
        ("query_key,doc_key,label\na,b,3\na,b,4", "two labels"),
    ],
)
def test_sheets_are_read_strictly(tmp_path: Path, lines: str, message: str) -> None:
    path = tmp_path / "s.csv"
    path.write_text(lines)
    with pytest.raises(BadInput, match=message):
        read_labels(path)
    with pytest.raises(BadInput, match="readable sheet"):
        read_labels(tmp_path / "absent.csv")
