"""How commands start and end: what they import, what help shows, completion, Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from cyclopts import App

from flows import cli
from flows.commands.display import Display
from flows.pipeline.fingerprints import FILE
from flows.pipeline.walk import StageLabel
from schemas.settings import Resources
from tasks.demo.figures import write_figures
from tasks.demo.papers import PaperGenerator
from tasks.store.store import Request, Store
from tests.flows.conftest import Arena, Chain

HELP_IMPORTS = {"attr", "attrs", "cyclopts", "docstring_parser", "flows", "rich", "schemas"}
"""What `arena --help` may import besides the standard library."""

STATUS_IMPORTS = {
    "annotated_types",
    "orjson",
    "pydantic",
    "pydantic_core",
    "tasks",
    "typing_extensions",
    "typing_inspection",
}
"""What `arena status` may import besides."""

PROGRAM = """
import json, sys
before = set(sys.modules)
from flows import cli
found = []
for tokens in (["--help"], ["edition", "--help"], ["status"]):
    cli.app.meta(tokens, exit_on_error=False, print_error=False)
    new = {name.partition(".")[0] for name in set(sys.modules) - before}
    found.append(sorted(new - set(sys.stdlib_module_names) - {"__mp_main__"}))
sys.stderr.write(json.dumps(found))
"""


def test_help_and_status_import_only_what_they_show(arena: Arena) -> None:
    assert arena("status")[0] == 0  # what stages are asked for is remembered from here on
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    help_page, group, status = (
        {name for name in names if not name.startswith("_sysconfigdata")} for names in json.loads(done.stderr)
    )
    assert help_page | group <= HELP_IMPORTS
    assert status <= HELP_IMPORTS | STATUS_IMPORTS
    assert "2026-01-06" in done.stdout


def _walk(app: App) -> Iterator[App]:
    for command in app.resolved_commands().values():
        yield command
        yield from _walk(command)


def test_help_says_of_a_command_what_its_docstring_says() -> None:
    checked = 0
    for command in _walk(cli.app):
        function = command.default_command
        if function is not None and function.__module__.startswith("flows.commands."):
            said = " ".join((function.__doc__ or "").split("\n\n")[0].split())
            assert cli._summary(function.__module__.rpartition(".")[2], function.__name__) == said
            checked += 1
    assert checked > 40


def test_status_says_the_same_with_and_without_what_it_remembers(arena: Arena) -> None:
    memory = arena.folder / "store" / FILE

    def states() -> list[tuple[str, ...]]:
        return [(slot["slot"], slot["state"], slot["runs"]) for slot in arena.json("status")[0]["slots"]]

    memory.unlink(missing_ok=True)
    first = states()
    assert {state for _, state, _ in first} == {"built"}
    known = json.loads(memory.read_text())
    assert states() == first
    for other in (b"", b"[]", b"\xff", json.dumps({"code": "other", "known": {}}).encode()):
        memory.write_bytes(other)
        assert states() == first
        assert json.loads(memory.read_text()) == known
    for entry in known["known"].values():  # it is used: what it says of versions is believed
        entry["version"] += 1
    memory.write_text(json.dumps(known))
    assert {state for _, state, _ in states()} == {"outdated"}
    known["code"] = "of other files"
    memory.write_text(json.dumps(known))
    assert states() == first


@pytest.mark.long
def test_completion_is_installed_for_lazy_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "arena.bash"
    cli.app.meta(["--install-completion", "--shell", "bash", "-o", str(script)], exit_on_error=False)
    assert str(script) in capsys.readouterr().out
    found = subprocess.run(
        [
            "bash",
            "-c",
            f"source {script}; COMP_WORDS=(arena run discovery --base); COMP_CWORD=3; _arena; echo ${{COMPREPLY[@]}};"
            "COMP_WORDS=(arena ed); COMP_CWORD=1; _arena; echo ${COMPREPLY[@]}",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.splitlines() == ["--baselines", "edition"]


def _stop_ignoring_ctrl_c() -> None:
    """Undoes what a shell sets for jobs that it starts in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize(
    ("number", "code", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_ctrl_c_and_sigterm_end_a_command_on_one_line(tmp_path: Path, number: int, code: int, word: str) -> None:
    os.mkfifo(tmp_path / "waits")
    command = [sys.executable, "-m", "flows.cli", "score", "ranking", "waits", "waits"]
    with (
        subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, cwd=tmp_path, preexec_fn=_stop_ignoring_ctrl_c
        ) as running,
        (tmp_path / "waits").open("w"),  # returns when the command has opened the other end
    ):
        while psutil.Process(running.pid).status() != psutil.STATUS_SLEEPING:
            time.sleep(0.01)  # a signal just before the read would be noticed only after it
        running.send_signal(number)
        _, err = running.communicate(timeout=60)
    assert running.returncode == code
    assert err == f"arena: {word}; what is finished is kept: run the same command again to go on\n"


def test_an_interrupted_stage_is_named(chain: Chain, store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    papers, surveys, _ = chain.steps(1)
    with Display() as display:
        execute = display.executor(store, Resources(workers=1))
        built = execute(Request(papers.stage, papers.settings, {}), StageLabel("papers", False))
        chain.trouble = [KeyboardInterrupt()]  # pyright: ignore[reportAttributeAccessIssue]
        with pytest.raises(KeyboardInterrupt, match="surveys, 0 s so far"):
            execute(Request(surveys.stage, surveys.settings, {"papers": built}), StageLabel("surveys", False))
    assert "papers" in capsys.readouterr().err


def test_a_demo_with_too_few_papers_is_refused_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokens = ["demo", "--papers", "149", "--folder", str(tmp_path / "demo")]
    assert cli.app.meta(tokens, exit_on_error=False, print_error=False) == cli.BAD_USAGE
    assert "Must be >= 150" in capsys.readouterr().err
    assert not (tmp_path / "demo").exists()
    assert write_figures(tmp_path, PaperGenerator(42, 0.85, 2), 0.8, 150, broken=False) > 1
