"""A machine that is short of disk, and a store that several commands use at once."""

import os
import random
import subprocess
import time
from pathlib import Path

from tests.soak.commands import Running, run_arena
from tests.soak.ledger import Outcome, Verdict
from tests.soak.world import CHAPTERS, OLD, World

MIB = 2**20
NEIGHBOURS = (("gc", "--delete"), ("status",), ("edition", "list"), ("edition", "verify", OLD))
"""What others do with the store meanwhile."""


def fill_the_disk(world: World, chance: random.Random, folder: Path) -> Outcome:
    """Runs a command on a file system with too little space; with more space it must reach the undisturbed digests."""
    number = chance.randrange(len(CHAPTERS))
    chapter, disk = CHAPTERS[number], folder / "disk"
    disk.mkdir()
    used = sum(path.stat().st_size for path in world.snapshot(number).rglob("*") if path.is_file())
    needed = sum(path.stat().st_size for path in world.snapshot(number + 1).rglob("*") if path.is_file())
    size = int(used * 1.3 + chance.random() * (needed - used)) + MIB
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)], check=True)
    try:
        root = world.copy(number, disk)
        first = world.run(chapter, root)
        if first.late or first.left:
            return Outcome(chapter.name, Verdict.HANGING, first.complaint or "")
        if first.code and first.complaint:
            return Outcome(chapter.name, Verdict.RAW, first.complaint)
        subprocess.run(["mount", "-o", f"remount,size={1024 * MIB}", str(disk)], check=True)
        again = world.run(chapter, root)
        differences = again.last_line if again.code else world.differences(number, root)
        if differences:
            return Outcome(chapter.name, Verdict.LOST, f"{first.last_line}; with space: {differences}")
        return Outcome(chapter.name, Verdict.REFUSED if first.code else Verdict.EQUAL)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def crowd_a_store(world: World, chance: random.Random, folder: Path) -> Outcome:
    """Runs a command two or four times at once on one store, with a neighbour that cleans up or looks."""
    number, times = chance.randrange(len(CHAPTERS)), chance.choice((2, 4))
    chapter, neighbour = CHAPTERS[number], chance.choice(NEIGHBOURS)
    subject = f"{chapter.name} x {times} beside {' '.join(neighbour)}"
    root = world.copy(number, folder)
    commands = [world.arguments(chapter)] * times + [list(neighbour)]

    def others(_: Running) -> None:
        children = []
        for place, command in enumerate(commands[1:]):
            own = folder / str(place)
            own.mkdir()
            children.append(_apart(command, world, root, own))
            time.sleep(chance.random())
        for child in children:
            os.waitpid(child, 0)
        failures.extend(told for place in range(len(children)) if (told := (folder / str(place) / "wrong").read_text()))

    failures: list[str] = []
    first = run_arena(commands[0], world.environment(root), folder, others)
    if first.code:
        failures.append(first.complaint or first.last_line)
    again = world.run(chapter, root)
    if again.code:
        return Outcome(subject, Verdict.LOST, again.last_line)
    if differences := world.differences(number, root):
        return Outcome(subject, Verdict.DIFFERENT, differences)
    if failures:
        return Outcome(subject, Verdict.RAW, "; ".join(failures))
    return Outcome(subject, Verdict.EQUAL)


def _apart(command: list[str], world: World, root: Path, folder: Path) -> int:
    """Starts a process that runs a command and waits for it; its file `wrong` says what was wrong."""
    process = os.fork()
    if process == 0:
        (folder / "wrong").write_text(f"{command[:2]} could not be run")
        try:
            done = run_arena(command, world.environment(root), folder)
            wrong = (done.complaint or done.last_line) if done.code else ""
            (folder / "wrong").write_text(f"{command[:2]}: {wrong}" if wrong else "")
        finally:
            os._exit(0)
    return process
