"""What orchestration costs: the demo's pipeline as flows with a server, and the same without Prefect, in one run.

Each way is a process of its own that starts from nothing; what is measured begins when release, stand-in and server
are ready. Rounds: ARENA_BENCH_ROUNDS.
"""

import os
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from flows.commands.demo import BUILDERS, CORPUS, ENCODER, SYSTEMS, run_flows, stand_in
from flows.pipeline.machine import Machine
from flows.pipeline.release_files import open_files
from flows.pipeline.walk import Pipeline, Slots, build_labelled
from flows.server.local_server import prefect_api
from schemas.settings import IndexSettings
from tasks.demo.release import SyntheticSettings, write_release
from tasks.store.store import Store
from tests.conftest import REPOSITORY

ROUNDS = int(os.environ.get("ARENA_BENCH_ROUNDS", "1"))
RELEASE = SyntheticSettings(papers=500, figures=0.8)
"""As the demo's."""

MOST_SHARE, MOST_SECONDS = 0.15, 20.0
"""What orchestration may add, whichever is more."""

pytestmark = [pytest.mark.bench, pytest.mark.timeout(3600)]


def run_plainly(machine: Machine) -> Slots:
    """What `run_flows` does, without Prefect."""
    store = Store(machine.root)
    pipeline = Pipeline(
        store,
        RELEASE.release,
        lambda request, label: build_labelled(store, request, machine, label, lambda progress: None).ref,
    )
    return (
        pipeline.build_corpus(CORPUS, open_files(machine, None))
        | pipeline.build_indexes(IndexSettings(encoder=ENCODER))
        | pipeline.run_systems(SYSTEMS)
        | pipeline.organize(BUILDERS)
        | pipeline.write_report()
    )


def measure(way: str, folder: Path) -> float:
    """Seconds of one way in a new folder."""
    machine = Machine(root=folder / "store", releases=folder / "releases", workers=1)
    write_release(machine.releases, RELEASE)
    with ExitStack() as ready:
        if way == "flows":
            ready.enter_context(prefect_api(folder / "prefect"))
        ready.enter_context(stand_in(folder / "stand-in.jsonl"))
        start = time.monotonic()
        if way == "flows":
            run_flows(RELEASE.release, machine)
        else:
            run_plainly(machine)
        return time.monotonic() - start


def test_orchestration_adds_little_to_the_demo(tmp_path: Path) -> None:
    seconds: dict[str, list[float]] = {"flows": [], "plain": []}
    for number in range(ROUNDS):
        for way, found in seconds.items():
            command = [sys.executable, "-m", "tests.bench.test_overhead_bench", way, str(tmp_path / f"{way}-{number}")]
            done = subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, check=True)
            found.append(float(done.stdout.splitlines()[-1]))
    flows, plain = (statistics.median(found) for found in seconds.values())
    table = Table("flows with a server", "plain", "added", title=f"the demo's pipeline, seconds, {ROUNDS} rounds")
    table.add_row(f"{flows:.1f}", f"{plain:.1f}", f"{flows - plain:.1f} ({flows / plain - 1:.1%})")
    Console(width=100).print(table)
    assert flows - plain < max(MOST_SHARE * plain, MOST_SECONDS)


if __name__ == "__main__":
    print(measure(sys.argv[1], Path(sys.argv[2])))  # noqa: T201
