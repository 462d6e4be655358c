"""Jobs for worker processes; a module of its own, so that a worker imports nothing else of the tests."""

import os
import signal
import sys
import time
from pathlib import Path

from schemas.errors import BadInput
from tasks.store.shard import Shard


def note_process(folder: Path, name: str, seconds: float = 0.0) -> None:
    """Writes the id of the process that runs it."""
    (folder / f"{name}.begun").touch()
    time.sleep(seconds)
    (folder / name).write_text(str(os.getpid()))


def note_modules(path: Path) -> None:
    """Writes what the process has imported."""
    path.write_text(" ".join(sys.modules))


def note_variable(path: Path, name: str) -> None:
    """Writes a variable of the environment."""
    path.write_text(os.environ.get(name, ""))


def fail(message: str) -> None:
    """Fails as a job does whose input is wrong."""
    raise BadInput(message)


def die_once(shard: Shard, number: int) -> None:
    """Makes a shard; in number 5 the process is killed once, as by the kernel when memory runs out."""
    switch = shard.folder.parents[2] / "die"
    if number == 5 and switch.exists():
        switch.unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    shard.file(f"{number}.txt").write_text(str(number))
    shard.counts.kept = 1
