"""`--plan` says what a command will take by what earlier datasets took, builds nothing, and refuses what cannot be."""

import re
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from flows.pipeline import capacity
from flows.pipeline.plans.corpus import choose_buckets
from schemas.manifest import Manifest
from schemas.release import ReleaseDataset, SourceFile
from tasks.store.dataset import Dataset
from tests.flows.conftest import ONE


class Free(NamedTuple):
    """What `shutil.disk_usage` returns, of which the plan reads `free`."""

    free: int


def by_slot(plan: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["slot"]: row for row in plan["plan"]}


def manifest_of(arena, stage: str) -> Manifest:
    (folder,) = (arena.folder / "store" / stage).iterdir()
    return Dataset(folder).manifest


def test_a_plan_of_what_is_stored_takes_nothing(arena):
    plan = arena.json("build", "--plan", "--buckets", 2, *ONE)
    assert {row["basis"] for row in plan["plan"]} == {"stored"}
    assert (plan["hours"], plan["disk_gb"], plan["buckets"]) == (0, 0, 2)
    rows = by_slot(plan)
    assert rows["papers"]["rows"] == manifest_of(arena, "papers").counts.kept


def test_a_plan_of_the_same_release_in_other_buckets_says_what_the_first_build_took(arena):
    before = sorted(path.relative_to(arena.folder) for path in arena.folder.rglob("*"))
    plan = arena.json("build", "--plan", "--buckets", 3, *ONE)
    assert sorted(path.relative_to(arena.folder) for path in arena.folder.rglob("*")) == before
    for slot in ("paper_records", "papers", "documents", "topics"):
        made, row = manifest_of(arena, slot), by_slot(plan)[slot]
        assert made.usage
        assert row["basis"].startswith("measured ")
        assert row["rows"] == made.counts.kept
        assert row["gb"] == pytest.approx(sum(file.size for file in made.files) / 1e9)
        assert 0 < row["memory_gib"] <= sum(made.usage.peak_bytes) / 2**30 + 0.001
    assert plan["buckets"] == 3


def test_runs_are_planned_by_topics_and_documents(arena):
    first = ("run", "discovery", "--baselines", "title", "--retrievers", "bm25", *ONE)
    assert by_slot(arena.json(*first, "--plan"))["run/title.bm25.abstract"]["basis"] == "usual"
    arena.json(*first, "--limit-topics", 2)
    plan = by_slot(arena.json(*first, "--plan"))["run/title.bm25.abstract"]
    assert plan["basis"].startswith("measured ")
    topics, made = manifest_of(arena, "topics").counts.kept, manifest_of(arena, "run")
    assert plan["rows"] == round(made.counts.kept * topics / 2)
    assert by_slot(arena.json("index", "--engine", "dense", "--plan"))["embeddings/abstract"]["hours"] is None


@pytest.mark.parametrize(("what", "said"), [("disk", r"of disk are needed and 0\.0 GB"), ("memory", "of memory")])
def test_what_the_machine_cannot_hold_is_refused(arena, monkeypatch: pytest.MonkeyPatch, what: str, said: str) -> None:
    if what == "disk":
        monkeypatch.setattr(shutil, "disk_usage", lambda path: Free(1000))
    else:
        monkeypatch.setattr(capacity, "_free_memory", lambda: 1000)
    code, out, err = arena("build", "--plan", "--buckets", 3, *ONE)
    assert code == 1
    assert "paper_records" in out
    assert "plan: " in err
    assert re.search(said, err)


@pytest.mark.parametrize(("gib", "buckets"), [(0.001, 16), (8, 16), (9, 32), (534, 2048), (10_000, 4096)])
def test_buckets_follow_the_size_of_the_release(gib: float, buckets: int) -> None:
    files = (SourceFile(name="part-000.gz", size=int(gib * 2**30), sha256="0" * 64),)
    given = ReleaseDataset(release="2026-01-06", dataset="papers", directory=Path(), files=files)
    assert choose_buckets({"papers": given}) == buckets
