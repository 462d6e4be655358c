"""Shards on other machines: equal bytes, late files, lost workers; on a real Ray cluster on this machine."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path

import pytest

from flows.pipeline.machine import Machine
from flows.pipeline.ray_runner import RayShards
from flows.pipeline.release_files import open_files
from flows.pipeline.runner import choose_runner
from flows.pipeline.walk import Pipeline, StageLabel, build_labelled
from schemas.errors import ArenaError, BadInput, StageFailed, StoreError, UsageError
from schemas.manifest import Ref
from schemas.settings import CorpusSettings, EncoderSettings, IndexSettings, Resources
from tasks.demo.release import SyntheticSettings, write_release
from tasks.store import workspace
from tasks.store.shard import Shard
from tasks.store.shard_runner import Job
from tasks.store.stage import Stage, stage
from tasks.store.store import Request, Store
from tasks.store.workspace import Workspace
from tests.conftest import REPOSITORY
from tests.flows.conftest import Number
from tests.store.conftest import Elsewhere

SHARDS = 12


def write_number(shard: Shard, number: int) -> None:
    if (shard.folder.parents[2] / "slowly").exists():
        time.sleep(1)
    if (switch := shard.folder.parents[2] / f"{number}.does").exists():
        if switch.read_text() == "die":
            os._exit(9)
        raise BadInput(f"number {number} is wrong")
    with (shard.folder.parents[2] / "written.log").open("a") as log:
        log.write(f"{number}\n")
    shard.file(f"{number}.txt").write_text(str(number * number))
    shard.counts.kept = 1


def _numbers(work: Workspace[Number]) -> None:
    work.map_shards(write_number, {f"{number:05d}": number for number in range(SHARDS)})


numbers: Stage[Number] = stage("topics", version=1, settings=Number)(_numbers)
REQUEST = Request(numbers, Number(), {})


def written(store: Store) -> list[int]:
    return sorted(int(line) for line in (store.root / "written.log").read_text().split())


def test_where_shards_run_changes_no_digest(tmp_path: Path) -> None:
    here = Store(tmp_path / "here").build(REQUEST, Resources(workers=1)).ref
    elsewhere = Elsewhere()
    assert Store(tmp_path / "there").build(REQUEST, runner=elsewhere).ref == here
    assert elsewhere.carried_out == [f"{n:05d}" for n in reversed(range(SHARDS))]


def test_a_lost_machine_costs_no_finished_shard(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    with pytest.raises(StageFailed, match=r"died.*after 9 of 12"):
        store.build(REQUEST, runner=Elsewhere(lost="00002"))
    store.build(REQUEST, runner=Elsewhere())
    assert written(store) == [*range(SHARDS)]


def test_a_folder_that_is_not_shared_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace, "SEEN_WITHIN", 0.2)
    with pytest.raises(StoreError, match=r"00003 was made on another machine.*mount one folder"):
        Store(tmp_path / "store").build(REQUEST, runner=Elsewhere(forgets="00003"))


def test_a_file_that_appears_late_is_waited_for(tmp_path: Path) -> None:
    class Slow(Elsewhere):
        def run(self, jobs: Mapping[str, Job], processes: int, **options: object) -> Generator[str | None]:
            for name, job in jobs.items():
                threading.Timer(0.2, job).start()
                yield name

    store = Store(tmp_path / "store")
    dataset = store.open(store.build(REQUEST, runner=Slow()).ref)
    assert len(dataset.manifest.files) == SHARDS


@pytest.fixture(scope="module")
def ray_resources() -> Iterator[Resources]:
    """A Ray cluster with two cores that stops after the module."""
    ray = pytest.importorskip("ray")
    yield Resources(workers=2, runner="ray", device="cpu")
    ray.shutdown()


@pytest.mark.e2e
def test_an_edition_over_ray_has_the_digests_of_one_built_here(tmp_path: Path, ray_resources: Resources) -> None:
    release = SyntheticSettings(papers=120)
    write_release(tmp_path / "releases", release)

    def build(root: Path, resources: Resources) -> dict[str, str]:
        store = Store(root)

        def execute(request: Request, label: StageLabel) -> Ref:
            return build_labelled(store, request, resources, label, lambda progress: None).ref

        pipeline = Pipeline(store, "e", execute)
        files = open_files(Machine(root=root, releases=tmp_path / "releases"), release.release)
        built = pipeline.build_corpus(CorpusSettings(buckets=2), files)
        built |= pipeline.build_indexes(IndexSettings(encoder=EncoderSettings(model="all-MiniLM-L6-v2")))
        return {slot: ref.digest for slot, ref in built.items()}

    here = build(tmp_path / "here", Resources(workers=2, device="cpu"))
    assert "embeddings/abstract" in here
    assert build(tmp_path / "ray", ray_resources) == here


@pytest.mark.e2e
def test_errors_and_deaths_of_ray_jobs_are_reported(tmp_path: Path, ray_resources: Resources) -> None:
    store, runner = Store(tmp_path / "store"), choose_runner(ray_resources)
    (store.root / "5.does").write_text("die")
    with pytest.raises(StageFailed, match="worker process died"):
        store.build(REQUEST, ray_resources, runner=runner)
    (store.root / "5.does").write_text("raise")
    with pytest.raises(BadInput, match=r"^number 5 is wrong$"):
        store.build(REQUEST, ray_resources, runner=runner)
    with pytest.raises(UsageError, match=r"needs 1 GPU, the Ray cluster has 0"):
        list(RayShards(gpus=1).run({"any": print}, 2, accelerated=True))
    (store.root / "5.does").unlink()
    store.build(REQUEST, ray_resources, runner=runner)
    assert sorted(set(written(store))) == [*range(SHARDS)]


BUILD = """
from pathlib import Path
from flows.pipeline.runner import choose_runner
from schemas.settings import Resources
from tasks.store.store import Store
from tests.flows.pipeline.test_ray_runner import REQUEST
resources = Resources(workers=2, runner="ray")
Store(Path(ROOT)).build(REQUEST, resources, runner=choose_runner(resources))
"""


@pytest.mark.e2e
def test_a_missing_cluster_is_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")
    ray.shutdown()
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{closed.getsockname()[1]}")
        with pytest.raises(ArenaError, match="no Ray cluster at RAY_ADDRESS"):
            list(RayShards().run({"any": print}, 2))


@pytest.mark.e2e
def test_a_killed_build_leaves_no_writer_on_ray_and_goes_on(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    (store.root / "slowly").touch()
    build = subprocess.Popen([sys.executable, "-c", BUILD.replace("ROOT", repr(str(store.root)))], cwd=REPOSITORY)
    deadline = time.monotonic() + 120
    while not (store.root / "written.log").exists():
        assert build.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)
    build.kill()
    build.wait()
    time.sleep(5)
    before = written(store)
    assert len(before) < SHARDS
    time.sleep(3)
    assert written(store) == before

    (store.root / "slowly").unlink()
    store.build(REQUEST)
    assert sorted(set(written(store))) == [*range(SHARDS)]
