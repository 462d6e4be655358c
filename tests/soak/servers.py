"""Hostile servers behind each door outward: the datasets API, its files, a search service, a model."""

import json
import random
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.soak.commands import Finished, Running, run_arena
from tests.soak.hostile_server import CHAT_ONLY, MODES
from tests.soak.ledger import Outcome, Verdict
from tests.soak.world import CHAPTERS, OLD, World

PAIRS = [
    (door, mode)
    for door in ("api", "file", "engine", "model")
    for mode in MODES
    if door == "model" or mode not in CHAT_ONLY
]
STRIDE = 37
"""Shares no divisor with the number of pairs, so that a few trials meet all doors and all trials every pair."""

MOST_MEMORY = 3 * 2**30
"""Bytes that a command may hold; undisturbed, none holds half of it."""

DISCOVERY = next(number for number, chapter in enumerate(CHAPTERS) if chapter.name == "discovery")
_SHORT = (
    "--attempts",
    "2",
    "--backoff-s",
    "0.1",
    "--backoff-limit-s",
    "0.2",
    "--retry-after-limit-s",
    "1",
    "--timeout-s",
    "2",
    "--interval-s",
    "0",
)
_MODEL = {"attempts": 2, "timeout_s": 3, "patience_s": 5}


def meet_a_hostile_server(world: World, chance: random.Random, folder: Path, number: int) -> Outcome:
    """Lets a command meet a hostile server; the trial's number chooses door and mode."""
    door, mode = PAIRS[number * STRIDE % len(PAIRS)]
    subject = f"{door}: {mode}"
    with _serving(mode, door, world.releases) as port:
        if door == "model":
            return _ask(world, folder, subject, port)
        memory = _Memory()
        if door == "engine":
            root = world.copy(len(CHAPTERS), folder)
            command = [
                "judge",
                str(world.files / "queries.json"),
                "--engines",
                f"url:http://127.0.0.1:{port}/search",
                "--edition",
                OLD,
            ]
        else:
            root = folder / "store"
            command = [
                "release",
                "fetch",
                OLD,
                "--url",
                f"http://127.0.0.1:{port}/datasets/v1",
                *_SHORT,
                "--restarts",
                "1",
                "--rounds",
                "1",
            ]
        environment = world.environment(root) | {"ARENA_RELEASES": str(folder / "releases"), "S2_API_KEY": "any"}
        environment["ARENA_SEARCH_PATIENCE_S"] = "4"
        done = run_arena(command, environment, folder, memory)
    if memory.most > MOST_MEMORY:
        return Outcome(subject, Verdict.HANGING, f"held {memory.most / 2**30:.1f} GiB")
    strays = list(folder.rglob("meta-data"))
    if strays:
        return Outcome(subject, Verdict.DIFFERENT, f"wrote {strays}")
    if done.code == 0 and door != "engine":
        whole = all(
            _same(path, folder / "releases" / path.relative_to(world.releases)) for path in _files(world.releases / OLD)
        )
        return Outcome(
            subject,
            Verdict.EQUAL if whole else Verdict.DIFFERENT,
            "" if whole else "files of the release are not the server's",
        )
    return _refused(subject, done)


def _ask(world: World, folder: Path, subject: str, port: int) -> Outcome:
    """Runs a system that asks the hostile model; after recovery it has to reach the undisturbed digests."""
    chapter, root = CHAPTERS[DISCOVERY], world.copy(DISCOVERY, folder)
    patience = folder / "model.json"
    patience.write_text(json.dumps(_MODEL))
    memory = _Memory()
    more = {"ARENA_LLM_BASE_URL": f"http://127.0.0.1:{port}/v1", "ARENA_LLM_SETTINGS": str(patience)}
    asked = world.run(chapter, root, memory, **more)
    if memory.most > MOST_MEMORY:
        return Outcome(subject, Verdict.HANGING, f"held {memory.most / 2**30:.1f} GiB")
    if asked.code and (wrong := _refused(subject, asked)).verdict != Verdict.REFUSED:
        return wrong
    again = world.run(chapter, root)
    if again.code:
        return Outcome(subject, Verdict.LOST, again.last_line)
    healed = run_arena(("rerun", "--outcome", "failed", "--edition", OLD), world.environment(root), folder)
    differences = world.differences(DISCOVERY, root)
    if differences:
        return Outcome(subject, Verdict.DIFFERENT, f"{asked.last_line}; then: {healed.last_line}; {differences}")
    return Outcome(subject, Verdict.REFUSED if asked.code else Verdict.EQUAL)


def _refused(subject: str, done: Finished) -> Outcome:
    if done.late or done.left:
        return Outcome(subject, Verdict.HANGING, done.complaint or "")
    if done.code == 0:
        return Outcome(subject, Verdict.DIFFERENT, f"exit code 0: {done.out[-300:]}")
    return Outcome(subject, Verdict.RAW if done.complaint else Verdict.REFUSED, done.complaint or "")


class _Memory:
    """Watches how much memory a command and its children hold, until it ends."""

    def __init__(self) -> None:
        self.most = 0

    def __call__(self, running: Running) -> None:
        while not running.ended() and time.monotonic() - running.started < 120:
            held = 0
            try:
                own = psutil.Process(running.process)
                held = sum(process.memory_info().rss for process in (own, *own.children(recursive=True)))
            except psutil.Error:
                pass
            self.most = max(self.most, held)
            if held > MOST_MEMORY:
                return
            time.sleep(0.05)


@contextmanager
def _serving(mode: str, door: str, releases: Path) -> Generator[int]:
    command = [sys.executable, "-m", "tests.soak.hostile_server", mode, door, str(releases)]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        yield int(server.stdout.readline())
    finally:
        server.kill()
        server.wait()


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*.gz") if path.is_file()]


def _same(path: Path, other: Path) -> bool:
    return other.is_file() and path.read_bytes() == other.read_bytes()
