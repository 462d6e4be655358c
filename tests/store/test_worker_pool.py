"""Worker processes: kept from stage to stage, not started for small work, replaced after a death, ended by errors."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import psutil
import pytest

from schemas.errors import BadInput, StageFailed
from schemas.settings import Resources
from tasks.store import shard_runner
from tasks.store.shard_runner import SMALL_BYTES, LocalProcesses
from tasks.store.stage import stage
from tasks.store.store import Request, Store
from tasks.store.workspace import Workspace
from tests.conftest import REPOSITORY
from tests.store.conftest import Squares
from tests.store.jobs import die_once, fail, note_modules, note_process, note_variable

LARGE = {f"{n}": SMALL_BYTES for n in range(8)}
"""Sizes of jobs that are shared from the start."""


def processes_of(folder: Path, runner: LocalProcesses, names: Sequence[str], **options: object) -> set[int]:
    """Runs a job for each name, and returns which processes carried them out."""
    jobs = {name: partial(note_process, folder, name) for name in names}
    ended = list(runner.run(jobs, 2, **options))  # pyright: ignore[reportArgumentType]
    assert sorted(filter(None, ended)) == sorted(names)
    return {int((folder / name).read_text()) for name in names}


def test_processes_are_kept_for_the_next_stage(tmp_path: Path) -> None:
    runner = LocalProcesses()
    first = processes_of(tmp_path, runner, list(LARGE), sizes=LARGE)
    assert os.getpid() not in first
    assert len(first) <= 2
    assert processes_of(tmp_path, runner, list(LARGE), sizes=LARGE) | first <= first | set(runner.workers)
    assert len(runner.workers) == 2


def test_jobs_of_milliseconds_start_no_process(tmp_path: Path) -> None:
    runner = LocalProcesses()
    jobs = {f"{n}": partial(abs, n) for n in range(100)}
    assert list(runner.run(jobs, 2)) == list(jobs)
    assert runner.workers == []


def test_small_jobs_run_here_until_the_processes_are_ready(tmp_path: Path) -> None:
    names = ["small", *LARGE]
    jobs = {name: partial(note_process, tmp_path, name) for name in names}
    assert set(LocalProcesses().run(jobs, 2, sizes=LARGE)) >= set(jobs)
    found = [int((tmp_path / name).read_text()) for name in names]
    assert found[0] == os.getpid() not in found[1:]


SMALL = {f"{n}": SMALL_BYTES - 1 for n in range(8)}
"""Sizes of small jobs that are shared from the start, because there are many."""


def test_this_process_takes_its_part_of_small_jobs(tmp_path: Path) -> None:
    runner = LocalProcesses()
    jobs = {name: partial(note_process, tmp_path, name, 0.2) for name in SMALL}
    assert sorted(filter(None, runner.run(jobs, 2, sizes=SMALL))) == sorted(SMALL)
    assert {int((tmp_path / name).read_text()) for name in SMALL} == {os.getpid(), *runner.workers}
    assert len(runner.workers) == 1


def test_an_error_in_this_process_passes_after_the_others_have_ended(tmp_path: Path) -> None:
    runner = LocalProcesses()
    jobs = {"0": partial(note_process, tmp_path, "slow", 0.3), "1": partial(fail, "number 3 is wrong")}
    with pytest.raises(BadInput, match="number 3 is wrong"):
        list(runner.run(jobs, 2, sizes=SMALL))
    assert (tmp_path / "slow").exists()


def test_an_interruption_waits_for_the_small_job_of_this_process(tmp_path: Path) -> None:
    runner = LocalProcesses()
    running = runner.run({name: partial(note_process, tmp_path, name, 0.2) for name in SMALL}, 2, sizes=SMALL)
    next(running)
    running.close()
    written = sorted(tmp_path.iterdir())
    time.sleep(0.5)
    assert sorted(tmp_path.iterdir()) == written


def test_jobs_that_prove_slow_are_shared(tmp_path: Path) -> None:
    runner = LocalProcesses()
    list(runner.run({f"{n}": partial(note_process, tmp_path, f"{n}", 0.3) for n in range(4)}, 2))
    assert len(runner.workers) == 2


def test_a_worker_imports_what_its_job_needs_and_not_the_main_script(tmp_path: Path) -> None:
    list(LocalProcesses().run({"1": partial(note_modules, tmp_path / "1"), "2": partial(abs, 2)}, 2, sizes=LARGE))
    modules = (tmp_path / "1").read_text().split()
    assert note_modules.__module__ in modules
    assert not {"flows", "prefect", "pytest", "sklearn", "torch"} & set(modules)


def test_a_worker_has_the_environment_of_the_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = LocalProcesses()
    processes_of(tmp_path, runner, list(LARGE), sizes=LARGE)
    monkeypatch.setenv("ARENA_TEST_VALUE", "new")
    write = partial(note_variable, tmp_path / "value", "ARENA_TEST_VALUE")
    list(runner.run({"1": write, "2": partial(abs, 1)}, 2, sizes=LARGE))
    assert (tmp_path / "value").read_text() == "new"


def test_the_error_of_a_job_passes_after_the_others_have_ended(tmp_path: Path) -> None:
    runner = LocalProcesses()
    slow = partial(note_process, tmp_path, "slow", 0.3)
    with pytest.raises(BadInput) as caught:
        list(runner.run({"0": slow, "1": partial(fail, "number 3 is wrong")}, 2, sizes=LARGE))
    assert str(caught.value) == "number 3 is wrong"
    assert "in fail" in "".join(caught.value.__notes__)
    assert (tmp_path / "slow").exists()
    assert processes_of(tmp_path, runner, list(LARGE), sizes=LARGE) <= set(runner.workers)


def test_an_interruption_leaves_no_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_runner, "TICK", 0.05)
    runner = LocalProcesses()
    running = runner.run({f"{n}": partial(note_process, tmp_path, f"{n}", 60) for n in range(3)}, 2, sizes=LARGE)
    while len(list(tmp_path.glob("*.begun"))) < 2:
        assert next(running) is None
    writers = runner.workers
    running.close()
    assert not any(psutil.pid_exists(writer) for writer in writers)
    assert os.getpid() not in processes_of(tmp_path, runner, list(LARGE), sizes=LARGE)


def _dies(work: Workspace[Squares]) -> None:
    work.map_shards(die_once, {f"{n}": n for n in range(8)}, sizes=LARGE)


def test_a_killed_worker_is_a_clear_error_and_the_next_stage_gets_another(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    request = Request(stage("topics", version=1, settings=Squares)(_dies), Squares(), {})
    (store.root / "die").touch()
    with pytest.raises(StageFailed, match=r"a worker process died \(killed, or out of memory\) after \d of 8 shards"):
        store.build(request, Resources(workers=2))
    built = store.build(request, Resources(workers=2))
    manifest = store.open(built.ref).manifest
    assert manifest.counts.kept == 8
    assert manifest.shards_resumed >= 1


def test_a_worker_outlives_the_thread_that_needed_it(tmp_path: Path) -> None:
    """The kernel kills a process with the thread that started it, so stages in short threads must not start any."""
    runner = LocalProcesses()
    thread = threading.Thread(target=processes_of, args=(tmp_path, runner, list(LARGE)), kwargs={"sizes": LARGE})
    thread.start()
    thread.join()
    started = set(runner.workers)
    time.sleep(0.05)
    assert processes_of(tmp_path, runner, list(LARGE), sizes=LARGE) <= started


SCRIPT = """
from pathlib import Path
from schemas.settings import Resources
from tasks.store.shard_runner import SMALL_BYTES
from tasks.store.stage import stage
from tasks.store.store import Request, Store
from tests.store.conftest import Squares, write_square as imported

def here(shard, number):
    imported(shard, number)

@stage("topics", version=1, settings=Squares)
def squares(work):
    work.map_shards(FUNCTION, {str(n): n for n in range(3)}, sizes=dict.fromkeys("012", SMALL_BYTES))

GUARD
    print(Store(Path(ROOT)).build(Request(squares, Squares(), {}), Resources(workers=2)).executed)
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("function", "guard", "answer"),
    [
        ("here", "if __name__ == '__main__':", "True"),
        ("here", "if True:", "put what the script does under `if __name__ == '__main__':`"),
    ],
)
def test_a_script_needs_a_guard_only_for_shard_functions_of_its_own(
    tmp_path: Path, function: str, guard: str, answer: str
) -> None:
    script = tmp_path / "script.py"
    text = SCRIPT.replace("FUNCTION", function).replace("GUARD", guard).replace("ROOT", repr(str(tmp_path / "root")))
    script.write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60, env=environment)
    assert answer in done.stdout + done.stderr
