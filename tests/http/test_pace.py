"""Intervals between requests: of one process, and of several that share a file."""

import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

from tasks.http.pace import OwnPace, SharedPace

INTERVAL_S = 0.05

CALL = """
import sys, time
from pathlib import Path
from tasks.http.pace import SharedPace
pace = SharedPace(Path(sys.argv[1]), float(sys.argv[2]), 1)
for _ in range(4):
    pace.wait()
    print(time.time(), flush=True)
"""


def test_two_processes_keep_one_pace(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CALL, str(tmp_path / "state/next"), str(INTERVAL_S)]
    root = Path(__file__).parents[2]
    processes = [subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    moments = sorted(float(line) for process in processes for line in process.communicate(timeout=60)[0].split())
    assert len(moments) == 8
    assert all(after - before > 0.9 * INTERVAL_S for before, after in pairwise(moments))


def test_a_hold_stops_every_user_of_the_file_for_a_bounded_time(tmp_path: Path) -> None:
    one, other = (SharedPace(tmp_path / "next", 0.01, 0.1) for _ in range(2))
    one.hold(86_400)
    began = time.monotonic()
    other.wait()
    assert 0.09 < time.monotonic() - began < 5
    (tmp_path / "next").write_text(str(time.time() + 1e9))
    began = time.monotonic()
    other.wait()
    assert time.monotonic() - began < 5, "a clock that was set back stops nobody"


def test_one_process_keeps_its_interval_and_its_holds() -> None:
    waits: list[float] = []
    pace = OwnPace(10, waits.append)
    for _ in range(3):
        pace.wait()
    pace.hold(100)
    pace.wait()
    assert [round(wait) for wait in waits] == [10, 20, 100]
