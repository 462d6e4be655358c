"""One edition, four ways: plain commands, Ray, flows of this process with a server, deployments on a worker."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import CORPUS, ENCODER, INDEX, Site, slots

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

SYSTEMS = {"baselines": ["title", "feedback"], "retrievers": ["bm25", "dense", "hybrid"]}

FLOWS = """
import json, sys
from flows.jobs.build_corpus import build_corpus
from flows.jobs.build_index import build_index
from flows.jobs.ranking import discovery
from flows.pipeline.machine import Machine
from schemas.settings import CorpusSettings, IndexSettings, RunSettings
root, corpus, index, systems = map(json.loads, sys.argv[1:])
machine = Machine(root=root, workers=2)
build_corpus(settings=CorpusSettings(**corpus), machine=machine)
build_index(settings=IndexSettings(**index), machine=machine)
discovery(settings=RunSettings(**systems), machine=machine)
"""


def by_commands(site: Site, root: Path, *runner: str) -> None:
    site.arena("build", "--buckets", str(CORPUS["buckets"]), *runner, root=root)
    site.arena("index", "--model", ENCODER["model"], *runner, root=root)
    engines = [part for name in SYSTEMS["retrievers"] for part in ("--retrievers", name)]
    systems = [part for name in SYSTEMS["baselines"] for part in ("--baselines", name)]
    site.arena("run", "discovery", *systems, *engines, *runner, root=root)


def by_flows(site: Site, root: Path) -> None:
    arguments = [json.dumps(value) for value in (str(root), CORPUS, INDEX, SYSTEMS)]
    subprocess.run([sys.executable, "-c", FLOWS, *arguments], env=site.environment, cwd=site.folder, check=True)


def by_worker(site: Site, root: Path) -> None:
    machine = {"root": str(root), "workers": 1}
    for name, settings in (("build-corpus", CORPUS), ("build-index", INDEX), ("discovery", SYSTEMS)):
        site.completed(site.start(name, {"settings": settings, "machine": machine}))


def test_commands_ray_flows_and_a_worker_make_the_same_edition(site, tmp_path):
    pytest.importorskip("ray", reason="pip install 'research-arena[ray]'")
    by_commands(site, tmp_path / "commands", "--workers", "1")
    by_commands(site, tmp_path / "ray", "--runner", "ray", "--workers", "2")
    by_flows(site, tmp_path / "flows")
    by_worker(site, tmp_path / "worker")

    whole = slots(tmp_path / "commands")
    assert {"topics", "bm25/abstract", "embeddings/abstract"} <= whole.keys()
    assert sum(slot.startswith("scores/") for slot in whole) == 6
    for way in ("ray", "flows", "worker"):
        found = slots(tmp_path / way)
        assert {slot: ref for slot, ref in found.items() if slot != "report"} == whole, way  # flows write one
