"""Answering the subjects of a stage: where rows go, what is counted, what is kept, and which errors are outcomes."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from schemas.errors import ModelError, OverBudget, StageFailed, TransientError
from schemas.llm import ModelName
from schemas.llm_settings import LlmAccess
from schemas.settings import Resources, Settings
from schemas.tables.runs import OUTCOMES, OUTLINES, OutcomeRow, OutlineRow
from tasks.llm.asker import Asker
from tasks.llm.journal import Journal, SubjectRows
from tasks.llm.subjects import Failure, Subjects, answer_subjects, attempt
from tasks.store.workspace import Workspace
from tests.llm.conftest import SECRET, question, settings_for
from tests.llm.scripted_server import Answer, ScriptedServer, Seen, completion, error


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


def test_a_kept_answer_that_was_damaged_is_asked_again(tmp_path: Path) -> None:
    path, tables = tmp_path / "answered.jsonl", [OUTCOMES, OUTLINES]
    with Journal(path, tables) as journal:
        for number in range(4):
            journal.keep(number, str(number), answer(number, None))
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) == 5 and lines[2].count(b"scored") == 2
    path.write_bytes(b"".join([*lines[:2], lines[2].replace(b"scored", b"rcored"), *lines[3:4], lines[4][:30]]))
    with Journal(path, tables) as journal:
        assert [journal.find(number, str(number)) for number in range(4)] == [
            answer(number, None) if number in (0, 2) else None for number in range(4)
        ]


def test_a_stopped_stage_without_a_model_goes_on_at_the_shard(work: Workspace[Settings]) -> None:
    def stops(number: int, asker: Asker | None) -> SubjectRows:
        if number == 4:
            raise TransientError("the service is away")
        return answer(number, asker)

    def notes(number: int, asker: Asker | None) -> SubjectRows:
        asked.append(number)
        return answer(number, asker)

    asked: list[int] = []
    with pytest.raises(TransientError):
        answer_subjects(work, subjects(stops))
    answer_subjects(work, subjects(notes))
    assert asked == [3, 4]
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


MODEL = ModelName(provider="scripted", model="m")


def asking(server: ScriptedServer, tmp_path: Path, **changes: Any) -> Workspace[Settings]:
    """A workspace with a model; its settings differ from those of the tests of the door by `changes`."""
    access = LlmAccess(settings_for(server, provider=MODEL.provider, cache=tmp_path / "c.db", **changes), SECRET)
    return Workspace("run", tmp_path / "staging", Settings(), {}, Resources(), llm=access)


def ask_once(number: int, asker: Asker | None) -> SubjectRows:
    assert asker
    reply = asker.converse(question(f"{number}").messages)
    return SubjectRows([OutcomeRow(number, reply.outcome, None, fallback=reply.outcome != "ok")], reply.outcome)


def many(count: int, given: Callable[[int, Asker | None], SubjectRows] = ask_once, **more: Any) -> Subjects[int]:
    tables = {"part": OUTCOMES}
    return Subjects(range(count), 2, str, tables, lambda: nullcontext(given), model=MODEL, key=("topic_id",), **more)


def test_subjects_of_all_shards_are_asked_at_once(server: ScriptedServer, tmp_path: Path) -> None:
    """A shard of two would never have more than two calls in flight."""
    slow = completion("fine")
    server.play([slow, Answer(slow.body, 200, slow.headers, delay_s=0.3)])
    answer_subjects(asking(server, tmp_path, concurrency=60), many(121))
    assert server.most_under_way > 40


def test_a_killed_stage_goes_on_at_the_subject_and_gives_the_same_bytes(server: ScriptedServer, tmp_path: Path) -> None:
    def dies(number: int, asker: Asker | None) -> SubjectRows:
        if number == 7:
            raise KeyboardInterrupt
        return ask_once(number, asker)

    server.play([completion("fine")])
    whole = asking(server, tmp_path / "whole")
    answer_subjects(whole, many(10))
    work = asking(server, tmp_path / "killed", concurrency=1)
    with pytest.raises(KeyboardInterrupt):
        answer_subjects(work, many(10, dies))
    journal = work.scratch / "answered.jsonl"
    journal.write_bytes(journal.read_bytes()[:-20])  # the process died while it wrote the seventh line
    (tmp_path / "killed" / "c.db").unlink()
    server.seen.clear()
    answer_subjects(asking(server, tmp_path / "killed"), many(10))
    assert sorted(int(seen.last) for seen in server.seen) == [6, 7, 8, 9]
    files = sorted(path.name for path in whole.folder.glob("*.parquet"))
    assert [(work.folder / name).read_bytes() for name in files] == [(whole.folder / n).read_bytes() for n in files]


@pytest.mark.parametrize("status", [400, 500])
def test_an_endpoint_that_refuses_everything_is_asked_a_few_times(
    server: ScriptedServer, tmp_path: Path, status: int
) -> None:
    server.play([error(status, "temperature is not supported")])
    work = asking(server, tmp_path, concurrency=64)
    kind = TransientError if status == 500 else ModelError
    with pytest.raises(kind, match=r"5 of 5 calls failed, .*temperature is not supported"):
        answer_subjects(work, many(200))
    assert len(server.seen) == 5 * (3 if status == 500 else 1)
    assert not list(work.folder.glob("*.parquet"))


def test_a_short_stage_fails_by_its_share_at_the_end(server: ScriptedServer, tmp_path: Path) -> None:
    def half(seen: Seen, _: int) -> Answer:
        return error(400, "no") if int(seen.last) % 2 else completion("fine")

    server.play(half)
    work = asking(server, tmp_path)
    with pytest.raises(ModelError, match="5 of 10 calls failed"):
        answer_subjects(work, many(10))
    assert not list(work.folder.glob("*.parquet")), "no shard with a failed call is kept"
    server.play([completion("fine")])
    answer_subjects(work, many(10))
    assert {row["outcome"] for row in pq.read_table(work.folder).to_pylist()} == {"ok"}


def test_an_error_of_all_subjects_begins_no_more(server: ScriptedServer, tmp_path: Path) -> None:
    server.play(lambda seen, number: error(401, "no") if number == 3 else completion("fine"))
    with pytest.raises(ModelError, match="set a valid key"):
        answer_subjects(asking(server, tmp_path, concurrency=2), many(500))
    assert len(server.seen) < 20
