"""The weekly job by its deployment: killed, started twice at once, with and without something new, with a GPU pool."""

import json
import shutil
from pathlib import Path

import pytest
from isal import igzip

from tests.e2e.conftest import CORPUS, ENCODER, INDEX, RELEASE, Site, slots, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

NEXT = "2026-01-13"
SYSTEMS = {"baselines": ["title"], "retrievers": ["bm25", "dense"]}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, site: Site) -> Path:
    """A folder with a mirror of one release."""
    folder = tmp_path_factory.mktemp("weeks")
    shutil.copytree(site.folder / "releases", folder / "releases")
    return folder


def start_week(site: Site, place: Path) -> str:
    settings = {"source": "mirror", "corpus": CORPUS, "index": INDEX, "runs": SYSTEMS}
    machine = {"root": str(place / "store"), "releases": str(place / "releases"), "workers": 1}
    return site.start("weekly", {"settings": settings, "machine": machine})


def write_diff(releases: Path) -> None:
    """Some papers get another title."""
    folder = releases / "diffs" / f"{RELEASE}_{NEXT}"
    for dataset in (releases / RELEASE).iterdir():
        (folder / dataset.name / "updates").mkdir(parents=True)
    lines = igzip.open(min((releases / RELEASE / "papers").glob("*.gz")), "rb").read().splitlines()
    updates = [record | {"title": f"{record['title']} revised"} for record in map(json.loads, lines[10:15])]
    text = "".join(json.dumps(record) + "\n" for record in updates)
    (folder / "papers/updates/part").write_text(text)


def published(place: Path) -> set[str]:
    paths = (place / "store" / "editions").glob("*.json")
    return {path.stem for path in paths if json.loads(path.read_text())["published"]}


def by_commands(site: Site, place: Path) -> Path:
    """A store in which the plain command line builds both weeks."""
    root = place / "commands"
    releases = ("--releases", str(place / "releases"))
    corpus = ("--buckets", str(CORPUS["buckets"]), "--workers", "1", *releases)
    systems = ("--baselines", "title", "--retrievers", "bm25", "--retrievers", "dense", "--workers", "1")
    for edition, way in ((RELEASE, ()), (NEXT, ("--from-edition", RELEASE))):
        site.arena("build", "--release", edition, *way, *corpus, root=root)
        site.arena("index", "--edition", edition, "--model", ENCODER["model"], "--workers", "1", root=root)
        site.arena("run", "discovery", "--edition", edition, *systems, root=root)
    return root


def test_a_killed_week_is_retried_and_of_two_at_once_one_works(site, place):
    first = start_week(site, place)
    wait_for("the indexes are begun", lambda: list((place / "store").glob("bm25/*/manifest.json")), 180, every=0.05)
    site.flow_process().kill()
    assert site.ended(first, 60)["state_type"] == "CRASHED"
    assert not published(place)
    site.retry(first)
    site.completed(first)
    assert published(place) == {RELEASE}
    assert site.tasks(first)["paper_records"] == "Cached"

    write_diff(place / "releases")
    runs = [start_week(site, place) for _ in range(2)]
    assert sorted(site.completed(run)["state_name"] for run in runs) == ["Completed", "NothingNew"]

    commands = by_commands(site, place)
    for edition in (RELEASE, NEXT):
        plain = slots(commands, edition)
        assert plain.items() <= slots(place / "store", edition).items()
    assert published(place) == {RELEASE, NEXT}
    assert slots(commands, RELEASE)["papers"] != slots(commands, NEXT)["papers"]


def test_a_week_makes_its_embeddings_in_the_pool_of_the_gpus_and_forms_offer_its_edition(site):
    site.arena("deploy", "--gpu-pool", "gpu")
    worker = site.spawn("gpu-worker", "prefect", "worker", "start", "--pool", "gpu", "--type", "process")
    try:
        settings = {"source": "mirror", "corpus": CORPUS, "index": INDEX, "runs": SYSTEMS}
        run = site.start("weekly", {"settings": settings})
        week = site.completed(run, 400)
    finally:
        worker.terminate()
        worker.wait(60)
        site.arena("deploy", "--gpu-pool", "cpu")
    assert (week["name"], week["work_pool_name"]) == (f"weekly {RELEASE}", "cpu")
    wanted = {"deployments": {"id": {"any_": [site.deployment("build-index")["id"]]}}}
    (index,) = (found for found in site.post("/flow_runs/filter", wanted) if found["parent_task_run_id"])
    assert (index["name"], index["work_pool_name"]) == (f"build-index {RELEASE}", "gpu")
    assert "embeddings/abstract" not in site.tasks(run) and "embeddings/abstract" in site.tasks(index["id"])
    assert "embeddings/abstract" in slots(site.folder / "store")
    for name in ("discovery", "rerun-stage"):
        form = site.deployment(name)["parameter_openapi_schema"]
        assert form["properties"]["edition"]["enum"] == ["newest", RELEASE]
    assert {f"edition-{RELEASE}", f"progress-weekly-{RELEASE}"} <= site.artifacts(run).keys()
    assert site.artifacts(run)[f"progress-weekly-{RELEASE}"]["data"] == 100.0
