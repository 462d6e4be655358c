"""Runs the soak: `python -m tests.soak --to FOLDER --seed N`; repeated, it goes on where it was interrupted."""

import argparse
import gc
import importlib
import multiprocessing
import random
import shutil
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.soak.damaged_releases import damage_a_release
from tests.soak.flips import flip_a_bit
from tests.soak.flows import kill_a_service
from tests.soak.kills import kill_somewhere
from tests.soak.ledger import GOOD, Ledger, Outcome, Trial, Verdict, summarise
from tests.soak.machines import crowd_a_store, fill_the_disk
from tests.soak.servers import meet_a_hostile_server
from tests.soak.world import World

KINDS: dict[str, tuple[int, Callable[[World, random.Random, Path, int], Outcome]]] = {
    "kills": (200, lambda world, chance, folder, _: kill_somewhere(world, chance, folder)),
    "flipped bits": (300, lambda world, chance, folder, _: flip_a_bit(world, chance, folder)),
    "damaged releases": (300, lambda world, chance, folder, _: damage_a_release(world, chance, folder)),
    "hostile servers": (90, meet_a_hostile_server),
    "full disks": (20, lambda world, chance, folder, _: fill_the_disk(world, chance, folder)),
    "kills beside Prefect": (10, lambda world, chance, folder, _: kill_a_service(world, chance, folder)),
    "several at once": (20, lambda world, chance, folder, _: crowd_a_store(world, chance, folder)),
}
_COMMANDS = ("build", "run", "judge", "airqa", "edition", "status", "search", "release")
_LOADED = (
    "flows.cli",
    *(f"flows.commands.{name}" for name in _COMMANDS),
    "sentence_transformers",
    "sklearn.cluster",
    "openai",
)
"""What commands import, loaded before they are forked."""


def _plan(seed: int, only: list[str], scale: float) -> list[tuple[str, int]]:
    """Returns the trials in an order in which all kinds are mixed."""
    chosen = [
        (kind, number)
        for kind, (count, _) in KINDS.items()
        if not only or kind in only
        for number in range(max(1, round(count * scale)))
    ]
    random.Random(seed).shuffle(chosen)
    return chosen


def _try(world: World, ledger: Ledger, kind: str, number: int) -> None:
    """Runs a trial and writes down how it ended; the folder of a bad one is kept."""
    folder = world.folder / "trials" / f"{kind.replace(' ', '-')}-{number}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    started = time.monotonic()
    try:
        outcome = KINDS[kind][1](world, random.Random(f"{world.seed} {kind} {number}"), folder, number)
    except (Exception, pytest.fail.Exception):
        outcome = Outcome("trial", Verdict.BROKEN, traceback.format_exc())
    ledger.add(Trial(kind, number, outcome, time.monotonic() - started))
    if outcome.verdict in GOOD:
        shutil.rmtree(folder, ignore_errors=True)


def _lane(world: World, ledger: Ledger, trials: list[tuple[str, int]]) -> None:
    """Runs trials one after another, with a stand-in of its own."""
    world.model = 0
    world.start_model()
    try:
        for kind, number in trials:
            _try(world, ledger, kind, number)
    finally:
        world.stop_model()


def _load() -> None:
    for name in _LOADED:
        importlib.import_module(name)
    gc.freeze()


def main() -> int:
    """Runs all trials that the folder's ledger does not hold, and prints the table; 1: a promise was broken."""
    options = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    options.add_argument("--to", type=Path, default=Path("build/soak"), help="folder of the world and the ledger")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--lanes", type=int, default=2, help="trials at a time")
    options.add_argument("--scale", type=float, default=1.0, help="share of the trials, for a short look")
    options.add_argument("--only", nargs="*", default=[], choices=list(KINDS))
    chosen = options.parse_args()
    _load()
    world = World(chosen.to.absolute(), chosen.seed)
    world.create()
    world.stop_model()
    ledger = Ledger(world.folder / f"trials-{chosen.seed}.jsonl")
    done = {(trial.kind, trial.number) for trial in ledger.trials()}
    todo = [trial for trial in _plan(chosen.seed, chosen.only, chosen.scale) if trial not in done]
    lanes = [
        multiprocessing.get_context("fork").Process(target=_lane, args=(world, ledger, todo[n :: chosen.lanes]))
        for n in range(chosen.lanes)
    ]
    for process in lanes:
        process.start()
    for process in lanes:
        process.join()
    trials = ledger.trials()
    text = summarise(trials)
    (world.folder / f"summary-{chosen.seed}.md").write_text(text + "\n")
    sys.stdout.write(text + "\n")
    return int(any(trial.outcome.verdict not in GOOD for trial in trials))


if __name__ == "__main__":
    sys.exit(main())
