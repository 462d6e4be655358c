"""Kills in an installation with a Prefect server: of a run's process, its worker, the server, and of run and worker."""

import contextlib
import random
import time
from collections.abc import Generator
from pathlib import Path

import psutil

from tests.e2e.conftest import Site
from tests.soak.ledger import Outcome, Verdict
from tests.soak.world import CHAPTERS, OLD, World

INDEX = next(number for number, chapter in enumerate(CHAPTERS) if chapter.name == "index")
SETTINGS = {"encoder": {"model": "all-MiniLM-L6-v2"}}
"""Of the chapter `index`, as the form takes them."""

WAYS = ("run", "worker", "server", "run and worker")


def kill_a_service(world: World, chance: random.Random, folder: Path) -> Outcome:
    """Kills while a stage of a deployment's run is under way; a retry must reach the undisturbed digests."""
    way, stage = chance.choice(WAYS), chance.choice(world.stages["index"])
    subject = f"{stage} ({way})"
    root = world.copy(INDEX, folder)
    with _installed(world, folder) as site:
        machine = {"root": str(root), "releases": str(world.releases), "workers": 1}
        run = site.start("build-index", {"edition": OLD, "settings": SETTINGS, "machine": machine})
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline and not any((root / ".staging" / stage).glob("*")):
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.5))
        _kill(site, way)
        site.brought_to_its_end(run)
    differences = world.differences(INDEX, root)
    return Outcome(subject, Verdict.DIFFERENT if differences else Verdict.EQUAL, differences)


def _kill(site: Site, way: str) -> None:
    assert site.worker and site.server
    family = site.flow_processes()
    if way == "server":
        site.kill(site.server)
        time.sleep(2)
        site.start_server()
        return
    if way != "run":
        site.kill(site.worker)
    if way != "worker":
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
    if way != "run":
        site.start_worker()


@contextlib.contextmanager
def _installed(world: World, folder: Path) -> Generator[Site]:
    """Starts a server and a worker with all deployments, and stops them."""
    out = folder / "logs"
    out.mkdir()
    site = Site(folder, out)
    try:
        site.start_server()
        site.arena("deploy", "--gpu-pool", "cpu", "--json")
        site.start_worker()
        yield site
    finally:
        site.close()
