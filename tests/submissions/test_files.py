"""Files of submissions: the four forms say the same, and what is wrong in one is named with its place."""

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from schemas.errors import BadInput
from schemas.submission import Submission
from tasks.submissions.files import read_submissions

RUN = {"7": [30, 10, 20], "8": [5]}
ROWS = [(topic, document, rank) for topic, ranking in RUN.items() for rank, document in enumerate(ranking, 1)]


def write_lines(path: Path) -> None:
    path.write_text("".join(json.dumps({"topic": int(t), "ranking": ranking}) + "\n" for t, ranking in RUN.items()))


def write_trec(path: Path) -> None:
    path.write_text("".join(f"{t} Q0 {d} {rank} {10 - rank / 3} mine\n" for t, d, rank in reversed(ROWS)))


def write_csv(path: Path) -> None:
    path.write_text("topic,corpus_id,rank\n" + "".join(f"{t},{d},{rank}\n" for t, d, rank in reversed(ROWS)))


def write_parquet(path: Path) -> None:
    scored = [{"topic_id": int(t), "corpus_id": d, "score": -rank / 7} for t, d, rank in reversed(ROWS)]
    pl.DataFrame(scored).write_parquet(path)


def write_wide_parquet(path: Path) -> None:
    pl.DataFrame({"topic": list(RUN), "ranking": list(RUN.values())}).write_parquet(path)


@pytest.mark.parametrize("write", [write_lines, write_trec, write_csv, write_parquet, write_wide_parquet])
def test_every_form_holds_the_same_rankings(write: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "run"
    write(path)
    found = read_submissions(path).topics
    assert {topic: submission.ranking for topic, submission in found.items()} == RUN


def test_the_first_line_may_say_whose_run_it_is_and_lines_hold_all_fields(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    header = {"system": {"name": "agent", "version": 2}, "edition": "e", "task": "organization"}
    usage = {"input_tokens": 5, "usd": 0.1}
    line = {"topic": 7, "tree": {"label": "a", "children": []}, "status": "failed", "note": "why", "usage": usage}
    path.write_text(f"\ufeff{json.dumps(header)}\n\n{json.dumps(line)}\n")
    found = read_submissions(path)
    assert found.header.system is not None and found.header.system.run == "agent@2"
    assert (found.header.edition, found.header.task) == ("e", "organization")
    del line["topic"]
    assert found.topics == {"7": Submission.model_validate(line)}


def test_a_table_may_have_a_row_for_each_topic(tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    path.write_text('uuid,answer,status,usage\nu-1,"4, or 5",scored,"{""usd"": 2}"\nu-2,,failed,\n')
    found = read_submissions(path).topics
    assert found["u-1"].answer == "4, or 5"
    assert found["u-1"].usage.usd == 2
    assert (found["u-2"].status, found["u-2"].answer) == ("failed", None)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"topic": 7, "ranking": [1]}\n{"topic": "7", "ranking": [2]}\n', "line 2: topic 7 occurs twice"),
        ('{"topic": 7, "ranking": ["a"]}\n', "line 1: ranking.0"),
        ('{"topic": 7, "ranking": [1], "horizon": "2030-01-01"}\n', "line 1: horizon"),
        ('{"topic": 7, "ranking": ' + str(list(range(1001))) + "}\n", "line 1: ranking"),
        ('{"topic": 7, "ranking": [1], "status": "great"}\n', "line 1: status"),
        ('{"topic": 7, "usage": {"usd": -1}}\n', "line 1: usage.usd"),
        ('{"topic": 7, "ranking": [1]\n', "line 1: not JSON"),
        ('{"system": {"name": "../x", "version": "1"}}\n{"topic": 7}\n', "line 1: system.name"),
        ('{"topic": true}\n', "line 1: topic"),
        ("7 Q0 a 1 2.0 mine\n", "topic 7: ranking.0"),
        ("7 Q0 a 1\n", "line 1: expected"),
        ("", "holds nothing"),
        ("topic,corpus_id,rank\n7,1,first\n", "rank or score holds no numbers"),
        ("topic,tree\n7,{\n", "row 1"),
        ("topic,corpus_id\n,1\n", "topic: "),
    ],
)
def test_what_is_wrong_is_named_with_its_place(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.write_text(content)
    with pytest.raises(BadInput, match=message):
        read_submissions(path)


def test_documents_of_one_score_stay_in_the_order_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "run.txt"
    path.write_text("7 Q0 9 1 1.0 mine\n7 Q0 3 2 1.0 mine\n7 Q0 4 3 2.0 mine\n")
    assert read_submissions(path).topics["7"].ranking == [4, 9, 3]
