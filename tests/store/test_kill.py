"""kill -9 at random moments: every rerun ends at the same digest and repeats no finished shard."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from schemas.settings import Resources
from tasks.store.shard import Shard
from tasks.store.stage import Stage, stage
from tasks.store.store import Request, Store
from tasks.store.workspace import Workspace
from tests.store.conftest import Squares, write_square

REPOSITORY = Path(__file__).parents[2]
SHARDS = 80


def slow_square(shard: Shard, number: int) -> None:
    """Takes its time, writes, and says so in a log."""
    time.sleep(0.02)
    write_square(shard, number)
    with (shard.folder.parents[2] / "executed.log").open("a") as log:
        log.write(f"{number}\n")


def _slowly(work: Workspace[Squares]) -> None:
    work.map_shards(slow_square, {f"{n:05d}": n for n in range(work.settings.shards)})


slowly: Stage[Squares] = stage("topics", version=1, settings=Squares)(_slowly)


def build(root: Path) -> str:
    request = Request(slowly, Squares(shards=SHARDS), {})
    return Store(root).build(request, Resources(workers=2)).ref.digest


def left_of(group: int) -> list[str]:
    """What still runs of a process group, zombies aside."""
    found = subprocess.run(
        ["ps", "-eo", "pgid,stat,args"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return [line for line in found if line.split()[0] == str(group) and not line.split()[1].startswith("Z")]


def shards_done(root: Path) -> int:
    log = root / "executed.log"
    return len(log.read_text().splitlines()) if log.exists() else 0


@pytest.mark.long
def test_killed_builds_resume(tmp_path: Path) -> None:
    expected = build(tmp_path / "undisturbed")
    root = tmp_path / "killed"
    chance = random.Random(42)
    kills = 4
    for _ in range(kills):
        enough = shards_done(root) + chance.randint(0, 2)
        child = subprocess.Popen(
            [
                sys.executable,
                "-c",
                f"from tests.store.test_kill import build; build(__import__('pathlib').Path({str(root)!r}))",
            ],
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            start_new_session=True,
        )
        while shards_done(root) < enough:
            assert child.poll() is None, "the build ended before it was killed"
            time.sleep(0.001)
        time.sleep(chance.uniform(0, 0.05))
        child.send_signal(signal.SIGKILL)
        assert child.wait(30) == -signal.SIGKILL
        patience = time.monotonic() + 10
        while left_of(child.pid) and time.monotonic() < patience:
            time.sleep(0.05)
        assert not left_of(child.pid)
    assert build(root) == expected
    executed = Counter((root / "executed.log").read_text().split())
    assert set(executed) == {str(n) for n in range(SHARDS)}
    # Only the shards that were under way at a kill run twice: at most one per worker and kill.
    assert sum(executed.values()) - SHARDS <= 2 * kills
    manifest = Store(root).published("topics")[0].manifest
    assert manifest.counts.kept == SHARDS
