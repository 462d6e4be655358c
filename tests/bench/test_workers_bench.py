"""All cores beside one process, stage by stage: a release read whole, and by a diff.

Each build is a process of its own; rounds alternate between the two, and the smallest numbers count. Releases: invented
ones of ARENA_BENCH_PAPERS papers, or the mirror ARENA_BENCH_RELEASES (the first release whole, the next by its diff).
Rounds: ARENA_BENCH_ROUNDS.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from rich.console import Console
from rich.table import Table

from flows.pipeline.machine import Machine
from flows.pipeline.walk import Pipeline, StageLabel, build_labelled
from schemas.manifest import Ref
from schemas.settings import CorpusSettings, IndexSettings
from tasks.store.store import Request, Store
from tests.bench.test_incremental_bench import NEW, OLD, build_slots, write_weeks
from tests.conftest import REPOSITORY

PAPERS = int(os.environ.get("ARENA_BENCH_PAPERS", "20000"))
ROUNDS = int(os.environ.get("ARENA_BENCH_ROUNDS", "2"))
RELEASES = os.environ.get("ARENA_BENCH_RELEASES")
CORPUS = CorpusSettings(corpus="abstract")
INDEX = IndexSettings(dense_fields=())

MOST_WALL, MOST_STAGE, MOST_CPU, MOST_DIFF = 0.65, 1.05, 1.15, 0.5
"""What all cores may take beside one process (whole, and each stage), and a diff beside the release read whole."""

NOISE = 0.3
"""Seconds by which a stage may be slower all the same."""

ALONE, DEFAULT = 1, 0

Times = dict[str, tuple[float, float]]

pytestmark = [pytest.mark.bench, pytest.mark.timeout(7200)]


def cpu_seconds() -> float:
    """CPU time of this process and its workers so far."""
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    return sum(times.user + times.system for times in (process.cpu_times() for process in processes))


def build(machine: Machine, release: str, earlier: str | None) -> dict[str, Any]:
    """Builds an edition in this process: by slot seconds and CPU seconds, and the digests."""
    store = Store(machine.root)
    times: Times = {}

    def execute(request: Request, label: StageLabel) -> Ref:
        start, spent = time.perf_counter(), cpu_seconds()
        built = build_labelled(store, request, machine, label, lambda progress: None)
        times[label.slot] = time.perf_counter() - start, cpu_seconds() - spent
        return built.ref

    slots = build_slots(Pipeline(store, release, execute), machine, earlier, CORPUS, INDEX)
    return {"times": times, "digests": {slot: ref.digest for slot, ref in slots.items()}}


def run(releases: Path, root: Path, workers: int, *names: str) -> dict[str, Any]:
    """`build` in a process of its own."""
    command = [sys.executable, "-m", "tests.bench.test_workers_bench", str(releases), str(root), str(workers), *names]
    done = subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def least(rounds: list[Times]) -> Times:
    """The smallest numbers of each slot."""
    return {
        slot: (min(times[slot][0] for times in rounds), min(times[slot][1] for times in rounds)) for slot in rounds[0]
    }


def show(title: str, alone: Times, default: Times) -> None:
    """Prints one process beside all cores."""
    table = Table("stage", "1: s", "CPU s", "default: s", "CPU s", "s, share", "CPU, share", title=title)
    for slot in alone:
        (wall, cpu), (shared_wall, shared_cpu) = alone[slot], default[slot]
        shares = f"{shared_wall / wall:.2f}", f"{shared_cpu / cpu:.2f}"
        table.add_row(slot, *(f"{value:.2f}" for value in (wall, cpu, shared_wall, shared_cpu)), *shares)
    Console(width=110).print(table)


def with_sum(times: Times) -> Times:
    return {**times, "all": (sum(wall for wall, _ in times.values()), sum(cpu for _, cpu in times.values()))}


def test_all_cores_beside_one_process(tmp_path: Path) -> None:
    releases = Path(RELEASES) if RELEASES else tmp_path / "releases"
    if not RELEASES:
        write_weeks(releases, PAPERS)
    whole: dict[int, list[Times]] = {ALONE: [], DEFAULT: []}
    week: dict[int, list[Times]] = {ALONE: [], DEFAULT: []}
    digests: list[Any] = []
    for number in range(ROUNDS):
        for workers in (ALONE, DEFAULT):
            root = tmp_path / f"{number}-{workers}"
            found = run(releases, root, workers, OLD), run(releases, root, workers, NEW, OLD)
            whole[workers].append(found[0]["times"])
            week[workers].append(found[1]["times"])
            digests.append([build["digests"] for build in found])
    assert digests == [digests[0]] * len(digests)
    of = {workers: with_sum(least(rounds)) for workers, rounds in whole.items()}
    diff = {workers: with_sum(least(rounds)) for workers, rounds in week.items()}
    show(f"{RELEASES or f'{PAPERS:,} papers'}, whole", of[ALONE], of[DEFAULT])
    show("by a diff", diff[ALONE], diff[DEFAULT])
    show("read whole beside by a diff, default", of[DEFAULT], diff[DEFAULT])
    for alone, default in ((of[ALONE], of[DEFAULT]), (diff[ALONE], diff[DEFAULT])):
        slow = {slot for slot in alone if default[slot][0] > MOST_STAGE * alone[slot][0] + NOISE}
        assert not slow
        assert default["all"][1] < MOST_CPU * alone["all"][1]
    assert of[DEFAULT]["all"][0] < MOST_WALL * of[ALONE]["all"][0]
    assert diff[DEFAULT]["all"][0] < MOST_DIFF * of[DEFAULT]["all"][0]


if __name__ == "__main__":
    place, store, number, wanted, *before = sys.argv[1:]
    where = Machine(root=Path(store), releases=Path(place), workers=int(number))
    print(json.dumps(build(where, wanted, before[0] if before else None)))  # noqa: T201
