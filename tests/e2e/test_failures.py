"""What ends badly in the middle, and how it goes on: nothing half-published, no shard repeated, the same bytes."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import psutil
import pytest

from tasks.demo.standin.server import StandIn
from tests.e2e.conftest import INDEX, QUESTIONS_AT_ONCE, RELEASE, Site, manifest, slots, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(420)]
SLOT = "embeddings/abstract"


def parameters(root: Path) -> dict:
    return {"edition": RELEASE, "settings": INDEX, "machine": {"root": str(root), "workers": 1}}


def start_embedding(site: Site, root: Path) -> str:
    """A run of build-index that has finished a shard of the embeddings and not all."""
    run = site.start("build-index", parameters(root))
    wait_for("a shard of the embeddings is finished", lambda: shards(root), 180, every=0.05)
    assert not whole(root)
    return run


def shards(root: Path) -> int:
    return len(list(root.glob(".staging/embeddings/*/.shards/*.json")))


def whole(root: Path) -> bool:
    return any(root.glob("embeddings/*/manifest.json"))


def assert_undisturbed(root: Path, undisturbed: Path) -> None:
    assert slots(root)[SLOT] == slots(undisturbed)[SLOT]
    assert not list(root.glob(".staging/embeddings/*"))


@pytest.fixture(scope="module")
def lost(
    site: Site, undisturbed: Path, tmp_path_factory: pytest.TempPathFactory, copy_without: Callable
) -> tuple[str, Path]:
    """A run whose process and worker were both killed in the middle; another worker stands by."""
    root = copy_without(tmp_path_factory.mktemp("lost") / "store")
    run = start_embedding(site, root)
    family = site.flow_processes()
    site.kill(site.worker)
    for process in family:
        process.kill()
    site.start_worker()
    return run, root


def test_a_run_without_process_and_worker_publishes_nothing(site, lost):
    run, root = lost

    assert site.run(run)["state_type"] == "RUNNING"
    assert shards(root) and not whole(root)
    assert SLOT not in slots(root)


def test_a_killed_flow_process_is_crashed_at_once_and_retry_goes_on(site, corpus_store, undisturbed):
    run = start_embedding(site, corpus_store)
    finished = shards(corpus_store)
    site.flow_process().kill()

    crashed = site.ended(run, 60)
    assert crashed["state_type"] == "CRASHED"
    assert SLOT not in slots(corpus_store)

    site.retry(run)
    site.completed(run)
    assert site.tasks(run)["bm25/abstract"] == "Cached"
    assert manifest(corpus_store, SLOT)["shards_resumed"] >= finished
    assert_undisturbed(corpus_store, undisturbed)


def test_a_killed_worker_is_replaced_and_its_run_ends(site, corpus_store, undisturbed):
    run = start_embedding(site, corpus_store)
    site.kill(site.worker)
    site.start_worker()

    site.brought_to_its_end(run)
    assert manifest(corpus_store, SLOT)["shards_resumed"] >= (site.run(run)["run_count"] > 1)
    assert_undisturbed(corpus_store, undisturbed)


def test_a_killed_server_is_started_again_and_the_run_ends(site, corpus_store, undisturbed):
    run = start_embedding(site, corpus_store)
    site.kill(site.server)
    time.sleep(2)
    site.start_server()

    site.brought_to_its_end(run)
    assert_undisturbed(corpus_store, undisturbed)


def test_a_cancelled_run_leaves_no_process(site, corpus_store, undisturbed):
    run = start_embedding(site, corpus_store)
    family = site.flow_processes()
    site.post(f"/flow_runs/{run}/set_state", {"state": {"type": "CANCELLING", "name": "Cancelling"}})

    assert site.ended(run, 90)["state_type"] == "CANCELLED"
    assert not psutil.wait_procs(family, timeout=30)[1]
    assert not whole(corpus_store)
    assert shards(corpus_store)

    site.completed(site.start("build-index", parameters(corpus_store)))
    assert manifest(corpus_store, SLOT)["shards_resumed"] >= 1
    assert_undisturbed(corpus_store, undisturbed)


def test_no_answer_of_a_model_is_paid_for_twice(site, stand_in, undisturbed, tmp_path):
    root = shutil.copytree(undisturbed, tmp_path / "store")
    told = len(asked(stand_in))
    systems = {"baselines": ["zero_shot", "decomposer"], "retrievers": ["bm25"]}
    machine = {"root": str(root), "workers": 1}
    run = site.start("discovery", {"edition": RELEASE, "settings": systems, "machine": machine})
    wait_for("some answers are there", lambda: len(asked(stand_in)) >= told + 8, 120, every=0.05)
    site.flow_process().kill()
    assert site.ended(run, 60)["state_type"] == "CRASHED"
    assert not [slot for slot in slots(root) if slot.startswith("run/decomposer")]

    site.retry(run)
    site.completed(run)
    requests = asked(stand_in)[told:]
    assert len(requests) > 40
    assert len(requests) - len(set(requests)) <= QUESTIONS_AT_ONCE
    runs = [root / ref["stage"] / ref["key"] for ref in slots(root).values() if ref["stage"] == "run"]
    calls = [pl.read_parquet(folder / "calls-*.parquet") for folder in runs]
    assert set(pl.concat(calls)["outcome"]) == {"ok"}
    keys = pl.concat(calls)["keys"].explode()
    assert keys.n_unique() == len(set(requests))


def asked(stand_in: StandIn) -> list[str]:
    """Digests of the requests that were answered so far."""
    return [json.loads(line)["sha256"] for line in stand_in.settings.log.read_text().splitlines()]


def test_two_runs_at_once_execute_a_stage_once(site, corpus_store, undisturbed):
    runs = [site.start("build-index", parameters(corpus_store)) for _ in range(2)]

    for run in runs:
        site.completed(run, 240)
    assert sorted(site.tasks(run)[SLOT] for run in runs) == ["Cached", "Completed"]
    assert_undisturbed(corpus_store, undisturbed)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_full_disk_is_told_and_once_there_is_room_the_same_command_goes_on(site, undisturbed, tmp_path):
    disk, build = tmp_path / "disk", ("build", "--buckets", "8", "--workers", "1")
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", disk], check=True)
    try:
        full = site.arena(*build, root=disk / "store", check=False)
        assert full.returncode == 1
        assert "no space left" in full.stderr and "finished shards are kept" in full.stderr
        subprocess.run(["mount", "-o", "remount,size=100m", disk], check=True)
        site.arena(*build, root=disk / "store")
        assert slots(disk / "store").items() <= slots(undisturbed).items()
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_deleted_dataset_is_built_again_by_name_and_nothing_else_is(site, undisturbed, tmp_path):
    root = shutil.copytree(undisturbed, tmp_path / "store")
    gone = slots(root)["papers"]
    shutil.rmtree(root / "papers" / gone["key"])

    machine = {"root": str(root), "workers": 1}
    run = site.start("rerun-stage", {"edition": RELEASE, "stage": "papers", "machine": machine})
    site.completed(run)
    states = site.tasks(run)
    assert {name for name, state in states.items() if state == "Completed"} == {"papers"}
    assert {"paper_records", "documents", "topics"} <= {name for name, state in states.items() if state == "Cached"}
    assert slots(root)["papers"] == gone


def test_wiped_result_storage_changes_nothing(site, undisturbed, tmp_path):
    root = shutil.copytree(undisturbed, tmp_path / "store")
    before = slots(root)
    shutil.rmtree(site.folder / "prefect" / "storage", ignore_errors=True)

    run = site.start("build-index", parameters(root))
    site.completed(run)
    assert set(site.tasks(run).values()) == {"Cached"}
    assert slots(root) == before


def test_a_lost_run_is_found_out_and_retry_goes_on(site, lost, undisturbed):
    run, root = lost

    assert wait_for("the lost run is Crashed", lambda: site.run(run)["state_type"] == "CRASHED", 180)
    assert "no heartbeat" in site.run(run)["state"]["message"]
    site.retry(run)
    site.completed(run)
    assert manifest(root, SLOT)["shards_resumed"] >= 1
    assert_undisturbed(root, undisturbed)


def test_a_stopped_worker_waits_for_no_one(site):
    site.worker.send_signal(signal.SIGTERM)

    assert site.worker.wait(60) is not None
    site.start_worker()
