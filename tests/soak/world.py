"""A small world to disturb: a release, a diff, a stand-in for the model, and a store before and after each command."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import orjson
from isal import igzip

from tasks.demo.release import SyntheticSettings, write_release
from tests.paperqa.conftest import PAPERS, write_records
from tests.soak.commands import Disturb, Finished, run_arena

OLD, NEW = "2026-01-06", "2026-01-13"


@dataclass(frozen=True)
class Chapter:
    """A command, and the edition that it works on."""

    name: str
    arguments: tuple[str, ...]
    edition: str = OLD


_OPTIONS = ("--buckets", "2", "--workers", "2", "--survey-selector", "model", "--mindmaps", "figures")
CORPUS = ("build", "--release", OLD, *_OPTIONS)
_MODEL = ("--model", "all-MiniLM-L6-v2")
_BM25 = ("--retrievers", "bm25")
CHAPTERS = (
    Chapter("build", CORPUS),
    Chapter("index", ("index", *_MODEL, "--workers", "2")),
    Chapter("discovery", ("run", "discovery", *_BM25, "--baselines", "title", "feedback", "decomposer")),
    Chapter("selection", ("run", "selection", *_BM25, "--baselines", "title", "zero_shot")),
    Chapter("organization", ("run", "organization", "--builders", "clustering", "few_shot", "--encoder", _MODEL[1])),
    Chapter("judge", ("judge", "{files}/queries.json", "--engines", "bm25", "--edition", OLD, "--depth", "5")),
    Chapter(
        "airqa",
        ("airqa", "run", "--questions", "{files}/questions.jsonl", "--metadata", "{files}/papers", "--processed",
         "{files}/processed", "--baselines", "question_only", "title_abstract", "classic_rag"),
        "airqa",
    ),
    Chapter("diff", ("build", "--from-edition", OLD, "--release", NEW, *_OPTIONS), NEW),
)  # fmt: skip
"""Each stage executes in one of them, one after another."""


@dataclass
class World:
    """What trials start from: everything lies under `folder`, and `seed` decides every random choice.

    Attributes:
        stages: Stages that each chapter executes, in order of their beginning.
        slots: Digests by edition and slot after each chapter.
        seconds: How long each chapter took undisturbed.
        model: Port of the stand-in.
    """

    folder: Path
    seed: int
    stages: dict[str, list[str]] = field(default_factory=dict)
    slots: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    model: int = 0

    @property
    def releases(self) -> Path:
        return self.folder / "releases"

    @property
    def files(self) -> Path:
        return self.folder / "files"

    def snapshot(self, number: int) -> Path:
        """Returns the store before chapter `number`; that after the last one has the number of chapters."""
        return self.folder / "snapshots" / str(number)

    def environment(self, root: Path, **more: str) -> dict[str, str]:
        """Returns the environment of a command: nothing of this user's settings but the path."""
        url = f"http://127.0.0.1:{self.model}/v1"
        plain = {name: value for name, value in os.environ.items() if not name.startswith(("ARENA", "PREFECT", "S2_"))}
        mine = {
            "ARENA_ROOT": str(root),
            "ARENA_RELEASES": str(self.releases),
            "ARENA_STATE": str(root.parent / "state"),
        }
        model = {"BASE_URL": url, "PROVIDER": "stand-in", "MODEL": "stand-in", "API_KEY": "none"}
        quiet = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "COLUMNS": "5000"}
        return plain | mine | {f"ARENA_LLM_{name}": value for name, value in model.items()} | quiet | more

    def arguments(self, chapter: Chapter) -> list[str]:
        return [argument.replace("{files}", str(self.files)) for argument in chapter.arguments]

    def run(self, chapter: Chapter, root: Path, disturb: Disturb | None = None, **more: str) -> Finished:
        """Runs a chapter's command on a store."""
        return run_arena(self.arguments(chapter), self.environment(root, **more), root.parent, disturb)

    def copy(self, number: int, to: Path) -> Path:
        """Copies the store before a chapter; returns its root."""
        return shutil.copytree(
            self.snapshot(number), to / "store", symlinks=True, ignore=shutil.ignore_patterns(".opened")
        )

    def differences(self, number: int, root: Path, without: str = "") -> str:
        """Returns how a store's editions, apart from `without`, differ from those after chapter `number`."""
        found, expected = read_slots(root, without), self.slots[str(number)]
        return "; ".join(
            f"{edition}/{slot}: {found.get(edition, {}).get(slot, 'missing')[:12]} instead of {digest[:12]}"
            for edition, slots in expected.items()
            if edition != without
            for slot, digest in slots.items()
            if found.get(edition, {}).get(slot) != digest
        )

    def create(self) -> None:
        """Starts the stand-in; writes the releases and runs every chapter undisturbed, unless an earlier start did."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.start_model()
        done = self.folder / "world.json"
        if done.exists():
            told = json.loads(done.read_text())
            self.stages, self.slots, self.seconds = told["stages"], told["slots"], told["seconds"]
            return
        for old in ("releases", "files", "snapshots"):
            shutil.rmtree(self.folder / old, ignore_errors=True)
        _write_inputs(self.releases, self.files)
        self.snapshot(0).mkdir(parents=True)
        for number, chapter in enumerate(CHAPTERS):
            place = self.folder / "snapshots" / "draft"
            root = self.copy(number, place)
            before = _read_datasets(root)
            started = time.monotonic()
            finished = self.run(chapter, root)
            self.seconds[chapter.name] = time.monotonic() - started
            if finished.code:
                raise SystemExit(f"undisturbed, {chapter.name} failed: {finished.error}")
            after = read_slots(root)
            self.slots[str(number)] = after
            self.stages[chapter.name] = sorted({path.parts[0] for path in _read_datasets(root) - before})
            root.rename(self.snapshot(number + 1))
            shutil.rmtree(place)
        done.write_text(json.dumps({"stages": self.stages, "slots": self.slots, "seconds": self.seconds}))

    def start_model(self) -> None:
        """Starts the stand-in in a process that ends with this one."""
        self.model = self.model or free_port()
        code = (
            "import sys, threading; from tasks.demo.standin.server import StandIn, StandInSettings\n"
            "server = StandIn(StandInSettings(port=int(sys.argv[1])))\n"
            "sys.stdin.read()"
        )
        self.server = subprocess.Popen(
            [sys.executable, "-c", code, str(self.model)],
            stdin=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        )
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.model)) == 0:
                    return
            time.sleep(0.05)
        raise SystemExit("the stand-in does not answer")

    def stop_model(self) -> None:
        """Kills the stand-in."""
        self.server.kill()
        self.server.wait()


def free_port() -> int:
    """Returns a port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def read_slots(root: Path, without: str = "") -> dict[str, dict[str, str]]:
    """Returns digests by edition and slot, for what results consist of: a report's pages name times and folders."""
    found: dict[str, dict[str, str]] = {}
    for path in sorted(path for path in (root / "editions").glob("*.json") if path.stem != without):
        slots = json.loads(path.read_text())["slots"]
        found[path.stem] = {slot: ref["digest"] for slot, ref in slots.items() if "report" not in slot}
    return found


def _read_datasets(root: Path) -> set[Path]:
    """Returns the datasets of a store as `<stage>/<key>`."""
    return {path.parent.relative_to(root) for path in root.glob("*/*/manifest.json")}


def _write_inputs(releases: Path, files: Path) -> None:
    write_release(releases, SyntheticSettings(papers=300, files=2, figures=0.8))
    for dataset in (path.name for path in (releases / OLD).iterdir() if path.is_dir()):
        for kind in ("updates", "deletes"):
            (releases / "diffs" / f"{OLD}_{NEW}" / dataset / kind).mkdir(parents=True)
    lines = igzip.open(min((releases / OLD / "papers").glob("*.gz")), "rb").read().splitlines()
    changed = [orjson.loads(line) for line in lines[10:15]]
    text = b"".join(orjson.dumps(record | {"title": f"{record['title']} revised"}) + b"\n" for record in changed)
    (releases / "diffs" / f"{OLD}_{NEW}" / "papers" / "updates" / "part").write_bytes(text)
    write_records(files / "papers", PAPERS)
    from tasks.demo.paperqa import write_synthetic

    write_synthetic(files / "papers", files / "processed")
    queries = {
        str(n): {"search_query": text, "settings": {}} for n, text in enumerate(["graph learning", "sparse models"])
    }
    (files / "queries.json").write_text(json.dumps(queries))
    questions = [
        {
            "uuid": f"{number:08x}-0000-5000-8000-000000000000",
            "question": f"How many layers has the setting of {paper['title']}?",
            "answer_format": "an integer",
            "tags": ["single", "text", "objective"],
            "anchor_pdf": [paper["uuid"]],
            "reference_pdf": [],
            "conference": [],
            "evaluator": {"eval_func": "eval_int_exact_match", "eval_kwargs": {"gold": 12}},
        }
        for number, paper in enumerate(PAPERS, 1)
    ]
    (files / "questions.jsonl").write_text("".join(json.dumps(question) + "\n" for question in questions))
