"""A run killed in the middle of its calls asks no finished call again."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tasks.demo.standin.server import StandIn, StandInSettings
from tests.conftest import REPOSITORY
from tests.demo.standin.killed_process import AT_ONCE, QUESTIONS, ask_all

SCRIPT = Path(__file__).with_name("killed_process.py")


def asked(log: Path) -> Counter[str]:
    lines = log.read_text().splitlines() if log.exists() else []
    return Counter(json.loads(line)["sha256"] for line in lines)


@pytest.mark.long
def test_after_a_kill_only_calls_under_way_are_asked_again(tmp_path: Path) -> None:
    log, cache = tmp_path / "log.jsonl", tmp_path / "calls.sqlite"
    with StandIn(StandInSettings(log=log, delay_s=0.05)) as server:
        environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
        process = subprocess.Popen([sys.executable, str(SCRIPT), server.url, str(cache)], env=environment)
        while asked(log).total() < QUESTIONS // 2:
            assert process.poll() is None, "it ended before it could be killed"
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        time.sleep(0.3)  # answers under way are written to the log
        before = asked(log).total()
        with sqlite3.connect(cache) as database:
            (kept,) = database.execute("SELECT count(*) FROM calls").fetchone()
        answers = ask_all(server.url, cache)
        assert 0 < kept <= before < QUESTIONS and before - kept <= AT_ONCE
        assert answers == [f"gulls {number}" if number > 9 else "gulls" for number in range(QUESTIONS)]
        assert len(asked(log)) == QUESTIONS
        assert asked(log).total() - QUESTIONS == before - kept
        assert ask_all(server.url, cache) == answers
        assert asked(log).total() - QUESTIONS == before - kept
