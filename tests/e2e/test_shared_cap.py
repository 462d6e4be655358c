"""Two processes spend from one cap while one of them is killed again and again."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from schemas.llm_settings import BudgetSettings
from tasks.llm.budget import Budget
from tasks.llm.database import Database
from tests.llm.spending_process import LEASE_S

pytestmark = pytest.mark.e2e

CAP, KILLS, IN_FLIGHT = 3_000_000, 20, 16
ENDED_IN_S = 500


def start(folder: Path, name: str) -> subprocess.Popen[bytes]:
    command = (sys.executable, "-m", "tests.llm.spending_process", folder / "b", CAP, IN_FLIGHT, 0.1)
    with (folder / f"{name}.billed").open("wb") as billed:
        return subprocess.Popen([str(part) for part in command], stdout=billed)


def test_twenty_kills_neither_exceed_the_cap_nor_waste_it(tmp_path: Path) -> None:
    chance = random.Random(7)
    steady = start(tmp_path, "steady")
    processes = [steady]
    try:
        for number in range(KILLS):
            processes.append(victim := start(tmp_path, f"victim{number}"))
            wait_for_output(tmp_path / f"victim{number}.billed", victim)
            assert steady.poll() is None, "the cap was reached before the kills: raise it"
            time.sleep(chance.uniform(0, 0.5))
            victim.send_signal(signal.SIGKILL)
            victim.wait()
        assert steady.wait(ENDED_IN_S) == 0
    finally:
        for process in processes:
            process.kill()
            process.wait()
    billed = sum(int(line) for path in tmp_path.glob("*.billed") for line in path.read_bytes().split(b"\n")[:-1])
    (spent,) = Budget(Database(tmp_path / "b"), BudgetSettings()).spent()
    sys.stdout.write(f"cap {CAP:,}, counted {spent.tokens:,}, billed {billed:,} ({billed / CAP:.2%})\n")
    assert billed <= spent.tokens <= CAP
    assert billed >= 0.95 * CAP


def wait_for_output(path: Path, process: subprocess.Popen[bytes]) -> None:
    """Waits until a process has been billed for a call; its leases last longer than the wait between two looks."""
    ends = time.monotonic() + ENDED_IN_S
    while not path.stat().st_size and process.poll() is None and time.monotonic() < ends:
        time.sleep(LEASE_S / 50)
    assert process.poll() is None
