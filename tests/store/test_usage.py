"""What a stage used is recorded in its manifest: processor time, peak memory by process, bytes written."""

import time
from pathlib import Path

import numpy as np

from schemas.settings import Resources
from tasks.store.shard import Shard
from tasks.store.stage import Stage, stage
from tasks.store.store import Request, Store
from tasks.store.workspace import Workspace
from tests.flows.conftest import Number

HELD = 120 * 2**20
WRITTEN = 3 * 2**20


def hold(shard: Shard, seconds: float) -> None:
    held = np.ones(HELD, np.uint8)
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
    shard.file(f"{shard.name}.bin").write_bytes(held[:WRITTEN].tobytes())


def _holding(work: Workspace[Number]) -> None:
    work.map_shards(hold, {"only": 0.2})


def _idle(work: Workspace[Number]) -> None:
    for shard in work.pending(["only"]):
        with shard:
            shard.file("empty.bin").touch()


holding: Stage[Number] = stage("topics", version=1, settings=Number)(_holding)
idle: Stage[Number] = stage("topics", version=2, settings=Number)(_idle)


def test_a_manifest_says_what_its_stage_used_and_not_what_an_earlier_one_did(tmp_path: Path) -> None:
    store = Store(tmp_path)
    used, later = (
        store.open(store.build(Request(kind, Number(), {}), Resources(workers=3)).ref).manifest.usage
        for kind in (holding, idle)
    )
    assert used
    assert used.cpu_seconds >= 0.2
    assert used.peak_bytes[0] >= HELD
    assert used.processes == 3
    assert later
    assert later.cpu_seconds < 0.2
    assert later.peak_bytes[0] < used.peak_bytes[0] - HELD // 2
