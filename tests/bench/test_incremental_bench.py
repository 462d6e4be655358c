"""A week by its diff beside the release read whole, stage by stage; a week without changes; peak memory.

The encoder is a toy of two layers, so that a corpus of this size can be embedded here at all: with a real one the stage
`embeddings` is most of a full build, and how many texts are encoded again is what counts. One process, and processor
seconds, so that a busy machine does not decide. Papers: ARENA_BENCH_PAPERS.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from isal import igzip
from rich.console import Console
from rich.table import Table

from flows.machine import Machine
from flows.pipeline import Pipeline, build_labelled, open_files, open_update
from schemas.manifest import Ref
from schemas.settings import CorpusSettings, EncoderSettings, IndexSettings, Resources
from tasks.release.synthetic import SyntheticSettings, write_release
from tasks.store.store import Store
from tests.conftest import REPOSITORY
from tests.index.conftest import save_tiny_model

PAPERS = int(os.environ.get("ARENA_BENCH_PAPERS", "200000"))
CHANGED = 100
"""One paper in so many is changed; half as many are new."""

OLD, NEW, NEXT = "2026-01-06", "2026-01-13", "2026-01-20"
DATASETS = ("papers", "abstracts", "citations", "s2orc_v2")
CORPUS = CorpusSettings(corpus="abstract", buckets=16)

pytestmark = [pytest.mark.bench, pytest.mark.timeout(7200)]


def read(folder: Path) -> Iterator[bytes]:
    for path in sorted(folder.glob("*.gz")):
        with igzip.open(path, "rb") as source:
            yield from source


def key_of(dataset: str, line: bytes) -> int:
    return orjson.loads(line)["citationid" if dataset == "citations" else "corpusid"]


def write_weeks(mirror: Path, papers: int) -> None:
    """The release, its diff (every hundredth record changed, new papers as half as many), and the next one whole."""
    options = {"release": OLD, "broken": False, "full_text_share": 0.05, "paragraphs": 1}
    write_release(mirror, SyntheticSettings(papers=papers, **options))
    write_release(mirror / "larger", SyntheticSettings(papers=papers + papers // CHANGED // 2, **options))
    for dataset in DATASETS:
        known = {key_of(dataset, line) for line in read(mirror / OLD / dataset)}
        new = [line for line in read(mirror / "larger" / OLD / dataset) if key_of(dataset, line) not in known]
        changed = {key: line for line in read(mirror / OLD / dataset) if not (key := key_of(dataset, line)) % CHANGED}
        updates = [*map(_changed, changed.values()), *new]
        for name in (f"{OLD}_{NEW}", f"{NEW}_{NEXT}"):
            for kind in ("updates", "deletes"):
                (mirror / "diffs" / name / dataset / kind).mkdir(parents=True)
        (mirror / "diffs" / f"{OLD}_{NEW}" / dataset / "updates/part").write_bytes(b"".join(updates))
        target = mirror / NEW / dataset
        target.mkdir(parents=True)
        kept = [line for line in read(mirror / OLD / dataset) if key_of(dataset, line) not in changed]
        for part in range(4):
            with igzip.open(target / f"part-{part}.gz", "wb") as file:
                file.writelines([*kept, *updates][part::4])


def _changed(line: bytes) -> bytes:
    record = orjson.loads(line)
    for field in ("title", "abstract"):
        if record.get(field):
            record[field] += " revised"
    return orjson.dumps(record) + b"\n"


def build(machine: Machine, model: Path, release: str, earlier: str | None) -> dict[str, Any]:
    """Builds an edition in this process: processor seconds by slot and in all, peak memory in MiB, digests, notes."""
    seconds: dict[str, float] = {}
    store = Store(machine.root)

    def execute(request: Any, label: Any) -> Ref:
        start = time.process_time()
        built = build_labelled(store, request, Resources(workers=machine.workers), label, lambda progress: None)
        seconds[label.slot] = time.process_time() - start
        return built.ref

    start = time.process_time()
    pipeline = Pipeline(store, release, execute)
    if earlier:
        slots = pipeline.update_corpus(CORPUS, open_update(machine, earlier, release))
    else:
        slots = pipeline.build_corpus(CORPUS, open_files(machine, release))
    slots |= pipeline.build_indexes(IndexSettings(encoder=EncoderSettings(model=str(model))))
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {
        "seconds": seconds,
        "all": time.process_time() - start,
        "peak": peak / 1024,
        "digests": {slot: ref.digest for slot, ref in slots.items()},
        "encoded": store.open(slots["embeddings/abstract"]).manifest.counts.notes["encoded"],
    }


def run(folder: Path, store: str, release: str, earlier: str | None = None) -> dict[str, Any]:
    """`build` in a process of its own."""
    command = [
        sys.executable,
        "-m",
        "tests.bench.test_incremental_bench",
        str(folder),
        store,
        release,
        *([earlier] if earlier else []),
    ]
    done = subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def test_the_cost_of_a_week_follows_its_changes(tmp_path: Path) -> None:
    save_tiny_model(tmp_path, seed=0)
    write_weeks(tmp_path / "releases", PAPERS)
    run(tmp_path, "diff", OLD)
    whole = run(tmp_path, "whole", NEW)
    week = run(tmp_path, "diff", NEW, OLD)
    nothing = run(tmp_path, "diff", NEXT, NEW)
    table = Table(
        "stage",
        "whole, CPU s",
        "diff, CPU s",
        "share",
        "nothing, CPU s",
        title=f"{PAPERS:,} papers, 1.5 % changed or new",
    )
    for slot, seconds in whole["seconds"].items():
        row = [seconds, week["seconds"][slot], week["seconds"][slot] / seconds, nothing["seconds"][slot]]
        table.add_row(slot, f"{row[0]:.1f}", f"{row[1]:.1f}", f"{row[2]:.0%}", f"{row[3]:.1f}")
    everything = [of["all"] for of in (whole, week, nothing)]
    table.add_row(
        "all",
        f"{everything[0]:.1f}",
        f"{everything[1]:.1f}",
        f"{everything[1] / everything[0]:.0%}",
        f"{everything[2]:.1f}",
    )
    table.add_row(
        "texts encoded",
        f"{whole['encoded']:.0f}",
        f"{week['encoded']:.0f}",
        f"{week['encoded'] / whole['encoded']:.1%}",
        f"{nothing['encoded']:.0f}",
    )
    table.add_row("peak MiB of a process", *(f"{of['peak']:.0f}" for of in (whole, week)), "", f"{nothing['peak']:.0f}")
    Console(width=120).print(table)
    exact = {slot for slot in whole["digests"] if not slot.startswith("embeddings")}  # batches differ: so do last bits
    assert {slot: week["digests"][slot] for slot in exact} == {slot: whole["digests"][slot] for slot in exact}
    assert week["encoded"] < 0.02 * whole["encoded"]
    assert nothing["digests"] == week["digests"]
    assert nothing["all"] < 10


if __name__ == "__main__":
    place, name, wanted, *before = sys.argv[1:]
    where = Machine(root=Path(place) / name, releases=Path(place) / "releases", workers=1)
    print(json.dumps(build(where, Path(place) / "model", wanted, before[0] if before else None)))  # noqa: T201
