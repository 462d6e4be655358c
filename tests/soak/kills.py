"""Kills at random moments: of the command, of one of its processes, of its whole group, and of the model it asks."""

import contextlib
import os
import random
import signal
import time
from pathlib import Path

import psutil

from tests.soak.commands import Finished, Running
from tests.soak.ledger import Outcome, Verdict
from tests.soak.world import CHAPTERS, World

WAYS = ("command", "command", "group", "child", "child", "terminate", "interrupt", "model")
"""Who is killed; terminate and interrupt are the signals that a service manager and Ctrl-C send."""


def kill_somewhere(world: World, chance: random.Random, folder: Path) -> Outcome:
    """Kills while a stage drawn at random is under way; the same command then has to reach the undisturbed digests."""
    number, stage = chance.choice([(n, s) for n, chapter in enumerate(CHAPTERS) for s in world.stages[chapter.name]])
    chapter, way = CHAPTERS[number], chance.choice(WAYS)
    subject = f"{stage} ({way})"
    root = world.copy(number, folder)
    killed = world.run(chapter, root, _Kill(world, stage, way, chance.uniform(0, 0.4)))
    if way == "model":
        world.start_model()
    if killed.left or killed.late:
        return Outcome(subject, Verdict.HANGING, killed.complaint or "")
    if way in ("child", "model", "terminate", "interrupt") and killed.code and (wrong := _complain(killed, way)):
        return Outcome(subject, Verdict.RAW, wrong)
    again = world.run(chapter, root)
    if again.code:
        return Outcome(subject, Verdict.LOST, again.error)
    differences = world.differences(number, root)
    return Outcome(subject, Verdict.DIFFERENT if differences else Verdict.EQUAL, differences)


def _complain(killed: Finished, way: str) -> str | None:
    """Returns what is wrong with how the command ended; a signal may end it, and an interruption needs no remedy."""
    if way in ("terminate", "interrupt"):
        return killed.error if "Traceback" in killed.error else None
    return killed.complaint


class _Kill:
    """Waits until a stage is under way, then a moment, and kills."""

    def __init__(self, world: World, stage: str, way: str, delay_s: float) -> None:
        self.world, self.stage, self.way, self.delay_s = world, stage, way, delay_s

    def __call__(self, running: Running) -> None:
        draft = running.root / ".staging" / self.stage
        while not running.ended() and not (draft.is_dir() and any(draft.iterdir())):
            time.sleep(0.002)
        time.sleep(self.delay_s)
        match self.way:
            case "command":
                running.send(signal.SIGKILL)
            case "group":
                if not running.ended():
                    os.killpg(running.process, signal.SIGKILL)
            case "child":
                members = [process for process in running.members() if process.is_running()]
                if members:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        random.Random(self.delay_s).choice(members).kill()
            case "terminate":
                running.send(signal.SIGTERM)
            case "interrupt":
                running.send(signal.SIGINT)
            case _:
                self.world.stop_model()
