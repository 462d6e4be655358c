"""Rate and remaining time, and how they are shown: a bar on a terminal, lines in a file, an artifact in Prefect."""

import io
import time

import pytest
from rich.console import Console

from flows.commands.display import Watch
from flows.pipeline.pace import Pace, show_seconds


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_rate_and_remaining_time_count_only_what_this_attempt_did() -> None:
    clock = Clock()
    pace = Pace(clock=clock)
    clock.now = 10
    pace.update(401, 1600)  # 400 were finished before
    clock.now = 100
    pace.update(500, 1600, "bucket 7")
    assert str(pace) == "500 of 1,600 (31%), 1.0 a second, 18 min left; bucket 7"
    clock.now = 1000
    assert str(pace) == "500 of 1,600 (31%), 6.0 a minute, 3 h 3 min left; bucket 7"
    slow = Pace("MB", clock=Clock())
    slow.update(0, 16, "reading")
    assert str(slow) == "0 of 16 MB (0%), 0 s so far; reading"


def test_before_the_first_report_it_says_for_how_long_it_runs() -> None:
    clock = Clock()
    pace = Pace(clock=clock)
    clock.now = 34
    assert str(pace) == "34 s so far"
    assert show_seconds(89) == "89 s"
    assert show_seconds(5400) == "1 h 30 min"


def _wait(output: io.StringIO, text: str) -> bool:
    ends = time.monotonic() + 20
    while text not in output.getvalue() and time.monotonic() < ends:
        time.sleep(0.01)
    return text in output.getvalue()


def test_a_file_gets_lines_while_nothing_is_reported() -> None:
    output = io.StringIO()
    pace = Pace()
    with Watch(Console(file=output), interval=0.01) as watch, watch.follow("run/[/b]", pace):
        assert _wait(output, "run/[/b]")
        assert _wait(output, "s so far")
        pace.update(3, 4, "[x]\x1b")
        assert _wait(output, "3 of 4 (75%), ")
    assert "a second, " in output.getvalue() or "a minute, " in output.getvalue()
    assert " left; [x]" in output.getvalue()
    assert "\x1b" not in output.getvalue()


def test_a_terminal_gets_a_bar_only_for_what_takes_long() -> None:
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=160)
    with Watch(console, soon=60.0) as watch, watch.follow("quick", Pace()):
        pass
    assert "quick" not in output.getvalue()
    pace = Pace()
    pace.update(1, 4)
    with Watch(console, soon=0.0) as watch, watch.follow("slow/[/b]", pace):
        assert _wait(output, "slow/[/b]")
        assert _wait(output, "1 of 4 (25%)")


@pytest.mark.usefixtures("prefect_server")
def test_the_progress_artifact_ends_at_100_percent(monkeypatch: pytest.MonkeyPatch) -> None:
    from prefect import flow
    from prefect.artifacts import Artifact

    from flows.jobs import as_task, runs
    from flows.pipeline.walk import StageLabel
    from tasks.store.workspace import Progress

    monkeypatch.setattr(as_task, "REPORT_INTERVAL", 0.0)
    monkeypatch.setattr(runs, "REPORT_INTERVAL", 0.0)

    @flow
    def watched() -> list[tuple[object, str | None]]:
        runs.begin_run("weekly [b]", walks=2)
        as_task.StageProgress(StageLabel("quick", False, place=(0, 1))).finish()
        progress = as_task.StageProgress(StageLabel("run/title_[b]", False, place=(0, 1)))
        seen: list[tuple[object, str | None]] = []
        for done in (1, 2):
            progress(Progress("run", done, 4, "*note*"))
            found = Artifact.get("progress-weekly-b")
            assert found is not None
            seen.append((found.data, found.description))
        progress.finish()
        runs.finish_run()
        found = Artifact.get("progress-weekly-b")
        assert found is not None
        return [*seen, (found.data, found.description)]

    first, second, last = watched()
    assert (first[0], second[0], last[0]) == (62.5, 75.0, 100.0), "one artifact over both walks of the run"
    assert second[1] is not None
    assert second[1].startswith(r"weekly \[b\]: run/title\_\[b\]: 2 of 4 (50%), ")
    assert " left; \\*note\\*" in second[1]
    assert last[1] is not None and last[1].startswith(r"weekly \[b\]: finished in ")
