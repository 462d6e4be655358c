"""An invented release of many papers built, indexed and run: what each stage costs, by size.

ARENA_BENCH_PAPERS: sizes, for example `100000,300000,1000000`; each has 5,000 topics and 5 % of its papers with full
text. ARENA_BENCH_FOLDER: where releases and stores are kept from one time to the next; what is there is not made again.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from rich.console import Console
from rich.table import Table

from schemas.manifest import Manifest
from tasks.demo.release import SyntheticSettings, write_release
from tasks.index.toy_model import TOY
from tasks.retrieval.documents import DocumentReader
from tasks.store.dataset import Dataset
from tasks.store.editions import Editions
from tasks.store.store import Store
from tests.conftest import REPOSITORY

SIZES = [int(size) for size in os.environ.get("ARENA_BENCH_PAPERS", "100000,300000").split(",")]
TOPICS = 5_000
SURVEYS = 1 / 16
"""Share of surveys among the papers of an invented release."""

MOST_GROWTH = 1.2
"""How much more a paper may cost in a large release than in the smallest."""

NOTICEABLE = 0.02
"""Share of all processor time from which a stage is compared."""

READS = 2000

pytestmark = [pytest.mark.bench, pytest.mark.timeout(6 * 3600)]


class Cost(NamedTuple):
    """What a stage used for a release."""

    seconds: float
    cpu: float
    peaks: tuple[int, ...]
    written: int


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    kept = os.environ.get("ARENA_BENCH_FOLDER")
    return Path(kept) if kept else tmp_path_factory.mktemp("million")


def arena(root: Path, releases: Path, *words: str) -> None:
    command = [sys.executable, "-m", "flows.cli", *words, "--root", str(root), "--releases", str(releases), "--json"]
    subprocess.run(command, cwd=REPOSITORY, check=True, stdout=subprocess.DEVNULL, stderr=sys.stderr)


def build(papers: int, folder: Path) -> Store:
    """Returns a store with the edition of a release, its indexes, and the runs of Title and Feedback."""
    releases, root = folder / str(papers), folder / f"root-{papers}"
    if not (releases / "2026-01-06").exists():
        surveys = 1.1 * TOPICS / (papers * SURVEYS)  # some have no reference left, and are no topics
        shape = SyntheticSettings(papers=papers, files=16, full_text_share=0.05, surveys=min(1, surveys), broken=False)
        write_release(releases, shape)
    arena(root, releases, "build", "--corpus", "abstract")
    arena(root, releases, "index", "--model", TOY)
    arena(root, releases, "run", "discovery", "--sample-topics", str(TOPICS))
    return Store(root)


def costs(store: Store) -> dict[str, Cost]:
    """Returns what each stage of the edition used, by slot."""
    slots = Editions(store).load("2026-01-06").slots
    found = {slot: store.open(ref).manifest for slot, ref in slots.items()}
    return {slot: _cost(manifest) for slot, manifest in found.items()}


def _cost(manifest: Manifest) -> Cost:
    used = manifest.usage
    assert used, "the system tells what a process uses"
    return Cost(manifest.seconds, used.cpu_seconds, used.peak_bytes, used.written_bytes)


def read_times(documents: Dataset) -> Iterator[float]:
    """Seconds of reading ten documents at a time, chosen at random, by a reader that has just been opened."""
    reader = DocumentReader(documents)
    ids = np.concatenate([documents.table(columns=["corpus_id"])["corpus_id"].to_numpy()])
    rng = np.random.default_rng(0)
    for _ in range(READS):
        wanted = rng.choice(ids, 10).tolist()
        start = time.process_time()
        reader.read(wanted)
        yield time.process_time() - start


def test_a_paper_costs_the_same_in_a_large_release(folder: Path) -> None:
    found: dict[int, dict[str, Cost]] = {}
    table = Table("papers", "stage", "s", "CPU s", "CPU µs a paper", "peak MiB by process", "written MB")
    for papers in sorted(SIZES):
        store = build(papers, folder)
        found[papers] = costs(store)
        for slot, cost in found[papers].items():
            peaks = " ".join(f"{peak / 2**20:.0f}" for peak in cost.peaks)
            per_paper = f"{cost.cpu / papers * 1e6:.1f}"
            row = (f"{cost.seconds:.1f}", f"{cost.cpu:.1f}", per_paper, peaks, f"{cost.written / 1e6:.0f}")
            table.add_row(f"{papers:,}", slot, *row)
        table.add_section()
        times = np.array([*read_times(store.open(Editions(store).load("2026-01-06").slots["documents"]))]) * 1000
        table.add_row(
            f"{papers:,}", "read(10): CPU ms", f"{np.median(times):.1f}", f"p99 {np.quantile(times, 0.99):.1f}"
        )
        table.add_section()
    Console(width=130).print(table)
    smallest, largest = min(SIZES), max(SIZES)
    whole = sum(cost.cpu for cost in found[largest].values())
    grown = {
        slot: cost.cpu / found[smallest][slot].cpu * smallest / largest
        for slot, cost in found[largest].items()
        if cost.cpu >= NOTICEABLE * whole
    }
    assert not {slot: growth for slot, growth in grown.items() if growth > MOST_GROWTH}
