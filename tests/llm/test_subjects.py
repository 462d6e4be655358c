"""Answering the subjects of a stage: where rows go, what is counted, what is kept, and which errors are outcomes."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from schemas.errors import OverBudget, StageFailed, TransientError
from schemas.settings import Resources, Settings
from schemas.tables.runs import OUTCOMES, OUTLINES, OutcomeRow, OutlineRow
from tasks.llm.asker import Asker
from tasks.llm.subjects import Failure, SubjectRows, Subjects, answer_subjects, attempt
from tasks.store.workspace import Workspace


def answer(number: int, asker: Asker | None) -> SubjectRows:
    rows = [OutcomeRow(number, "scored", None, fallback=False)]
    outlines = [OutlineRow(number, "# A \ud800 B")] if number == 4 else []
    return SubjectRows([*rows, *outlines], {2: "failed", 3: "refused"}.get(number, "scored"), {"even": number % 2 == 0})


@pytest.fixture
def work(tmp_path: Path) -> Workspace[Settings]:
    return Workspace("run", tmp_path, Settings(), {}, Resources())


def subjects(given: Callable[[int, Asker | None], SubjectRows] = answer, **more: Any) -> Subjects[int]:
    tables = {"part": OUTCOMES, "outlines": OUTLINES}
    return Subjects(range(1, 5), 2, str, tables, lambda: nullcontext(given), optional=("outlines",), **more)


def test_rows_go_to_the_table_of_their_class_and_outcomes_are_counted(work: Workspace[Settings]) -> None:
    answer_subjects(work, subjects())
    names = sorted(path.name for path in work.folder.glob("*.parquet"))
    assert names == ["outlines-00001.parquet", "part-00000.parquet", "part-00001.parquet"]
    assert pq.read_table(work.folder / names[1])["topic_id"].to_pylist() == [1, 2]
    assert pq.read_table(work.folder / names[0])["outline"].to_pylist() == ["# A ? B"]
    counts = work.counts()
    assert (counts.read, counts.kept, counts.failed, counts.dropped) == (4, 2, 1, {"refused": 1})
    assert counts.notes == {"even": 2}


@pytest.mark.parametrize(("keep_each", "again"), [(True, [4]), (False, [3, 4])])
def test_a_stopped_stage_goes_on_at_the_shard_or_the_subject(
    work: Workspace[Settings], keep_each: bool, again: list[int]
) -> None:
    def stops(number: int, asker: Asker | None) -> SubjectRows:
        if number == 4:
            raise TransientError("the service is away")
        return answer(number, asker)

    def notes(number: int, asker: Asker | None) -> SubjectRows:
        asked.append(number)
        return answer(number, asker)

    asked: list[int] = []
    with pytest.raises(TransientError):
        answer_subjects(work, subjects(stops, keep_each=keep_each))
    answer_subjects(work, subjects(notes, keep_each=keep_each))
    assert asked == again
    assert pq.read_table(work.folder / "part-00001.parquet")["topic_id"].to_pylist() == [3, 4]
    assert work.counts().dropped == {"refused": 1}


def test_a_shard_that_is_refused_is_not_written(work: Workspace[Settings]) -> None:
    def refuse(answers: object) -> list[OutcomeRow]:
        raise StageFailed("no answer is usable")

    with pytest.raises(StageFailed):
        answer_subjects(work, subjects(finish_shard=refuse))
    assert not list(work.folder.glob("*.parquet")) and not work.finished()


def test_an_error_is_an_outcome_unless_it_concerns_all_subjects() -> None:
    def raising(error: Exception) -> Callable[[], int]:
        def call() -> int:
            raise error

        return call

    assert attempt("topic 1", lambda: 3, reraise=()) == 3
    assert attempt("topic 1", raising(OverBudget("cap")), reraise=()) == Failure("over_budget", "cap")
    found = attempt("topic 1", raising(KeyError("x" * 600)), reraise=(TransientError,))
    assert isinstance(found, Failure) and found.outcome == "failed"
    assert found.note.startswith("KeyError: 'xxx") and len(found.note) == 500
    with pytest.raises(TransientError):
        attempt("topic 1", raising(TransientError("away")), reraise=(TransientError,))
