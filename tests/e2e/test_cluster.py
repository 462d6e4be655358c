"""A Ray cluster of two nodes, each with processes of its own: shards of every kind of stage run there."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from flows.pipeline.machine import Machine
from flows.pipeline.release_files import open_files
from flows.pipeline.runner import choose_runner
from flows.pipeline.walk import Pipeline, StageLabel, build_labelled
from schemas.errors import StageFailed
from schemas.manifest import Ref
from schemas.settings import CorpusSettings, EncoderSettings, IndexSettings, Resources, RunSettings, Settings
from tasks.demo.release import SyntheticSettings, write_release
from tasks.index.toy_model import TOY
from tasks.store.shard import Shard
from tasks.store.stage import Stage, stage
from tasks.store.store import Request, Store
from tasks.store.workspace import Progress, Workspace

pytestmark = pytest.mark.e2e

SHARDS = 12
ON_RAY = Resources(workers=2, runner="ray", device="cpu")


class Slow(Settings):
    seconds: float = 0.5


def write_node(shard: Shard, seconds: float) -> None:
    import ray

    time.sleep(seconds)
    shard.file(f"{shard.name}.txt").write_text(ray.get_runtime_context().get_node_id())


def _nodes(work: Workspace[Slow]) -> None:
    work.map_shards(write_node, {f"{number:05d}": work.settings.seconds for number in range(SHARDS)})


nodes: Stage[Slow] = stage("topics", version=1, settings=Slow)(_nodes)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Two nodes of one core each."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    ray.shutdown()
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    made.add_node(num_cpus=1)
    made.wait_for_nodes()
    monkeypatch.setenv("RAY_ADDRESS", made.address)
    yield made
    ray.shutdown()
    made.shutdown()


def build(root: Path, releases: Path, resources: Resources) -> dict[str, str]:
    """Builds an edition, indexes it and runs Title; returns the digests by slot."""
    store = Store(root)

    def execute(request: Request, label: StageLabel) -> Ref:
        return build_labelled(store, request, resources, label, lambda progress: None).ref

    pipeline = Pipeline(store, "e", execute)
    built = pipeline.build_corpus(CorpusSettings(buckets=4), open_files(Machine(root=root, releases=releases), None))
    built |= pipeline.build_indexes(IndexSettings(encoder=EncoderSettings(model=TOY)))
    built |= pipeline.run_systems(RunSettings(baselines=("title",), retrievers=("bm25", "dense")))
    return {slot: ref.digest for slot, ref in built.items()}


def test_parsing_merging_embedding_and_running_on_two_nodes_change_no_digest(tmp_path: Path, cluster: Any) -> None:
    write_release(tmp_path / "releases", SyntheticSettings(papers=200))
    here = build(tmp_path / "here", tmp_path / "releases", Resources(workers=1, device="cpu"))
    assert {"paper_records", "papers", "embeddings/abstract", "run/title.bm25.abstract"} <= set(here)
    assert build(tmp_path / "there", tmp_path / "releases", ON_RAY) == here


def test_both_nodes_work_and_a_lost_node_costs_no_finished_shard(tmp_path: Path, cluster: Any) -> None:
    store, runner = Store(tmp_path), choose_runner(ON_RAY)
    dataset = store.open(store.build(Request(nodes, Slow(), {}), ON_RAY, runner=runner).ref)
    assert len({dataset.path(file.path).read_text() for file in dataset.manifest.files}) == 2

    def lose(progress: Progress) -> None:
        if progress.done == 4:
            time.sleep(0.5)  # its worker is between two shards now
            node = next(iter(cluster.worker_nodes))
            raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
            for lost in [raylet, *raylet.children(recursive=True)]:  # without it, a worker ends its shard
                lost.kill()
            cluster.remove_node(node, allow_graceful=False)

    again = Request(nodes, Slow(seconds=1), {})
    with pytest.raises(StageFailed, match="worker process died"):
        store.build(again, ON_RAY, runner=runner, report=lose)
    finished = store.open(store.build(again, ON_RAY, runner=runner).ref).manifest
    assert finished.shards_resumed >= 4
    assert len(finished.files) == SHARDS
