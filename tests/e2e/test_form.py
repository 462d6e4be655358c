"""What a maintainer does in the browser: reads a form, fills it, sees the run end, is told what is wrong."""

import json
import shutil
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from tests.e2e.conftest import CORPUS, PATIENCE, RELEASE, Site, manifest, slots, wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

MOST_OVERHEAD = 20.0
"""Seconds that orchestration may add to what the stages take."""

pytestmark = [pytest.mark.e2e, pytest.mark.ui, pytest.mark.timeout(420)]


@pytest.fixture(scope="module")
def page(browser: "Browser") -> Iterator["Page"]:
    page = browser.new_page(viewport={"width": 1280, "height": 1800})
    page.set_default_timeout(PATIENCE)
    yield page
    page.close()


def open_form(site: Site, page: "Page", name: str, parameters: dict) -> str:
    """Opens the run form with values filled in, and names the run; returns the name."""
    form = f"{site.url}/v2/deployments/deployment/{site.deployment(name)['id']}/run"
    page.goto(f"{form}?parameters={quote(json.dumps(parameters))}", wait_until="domcontentloaded")
    run = f"e2e-{uuid.uuid4().hex[:8]}"
    page.get_by_label("Run Name").fill(run)
    return run


def runs_named(site: Site, name: str) -> list[dict]:
    return site.post("/flow_runs/filter", {"flow_runs": {"name": {"any_": [name]}}})


def test_a_form_has_labels_help_and_choices_and_its_run_ends_with_artifacts(site, page, undisturbed, tmp_path, out):
    root = tmp_path / "store"
    machine = {"root": str(root), "workers": 1}
    name = open_form(site, page, "build-corpus", {"release": RELEASE, "settings": CORPUS, "machine": machine})
    shown = page.locator("body").inner_text()
    page.screenshot(path=out / "form.png", full_page=True)

    for words in ("Release", "Id of the release", "Papers that become documents", "full_text", "Expert settings"):
        assert words in shown, words
    for words in ("Horizon of a survey", "Folder of the store", "survey_selector"):
        assert words not in shown, f"{words}: the expert group is closed, titles are words"
    assert "str" not in shown.split()
    assert shown.index("Survey selector") < shown.index("Expert settings")
    page.get_by_role("tab", name="Change").first.click()
    page.get_by_text("Horizon of a survey").first.wait_for()
    page.screenshot(path=out / "form-expert.png", full_page=True)
    name = open_form(site, page, "build-corpus", {"release": RELEASE, "settings": CORPUS, "machine": machine})
    page.get_by_role("button", name="Submit").click()
    found = wait_for("the form's run exists", lambda: runs_named(site, name), 60)
    run = found[0]["id"]
    assert found[0]["parameters"]["settings"]["buckets"] == CORPUS["buckets"]
    ended = site.completed(run)
    assert "topics" in slots(root)
    assert all(ref == slots(undisturbed)[slot] for slot, ref in slots(root).items() if slot != "report")
    stages = sum(manifest(root, slot)["seconds"] for slot in slots(root))
    assert ended["total_run_time"] - stages < MOST_OVERHEAD

    left = site.artifacts(run)
    assert {f"counts-{RELEASE}", f"lineage-{RELEASE}", f"edition-{RELEASE}"} <= left.keys()
    assert ended["name"] == name, "a name that a person has given stays"
    (progress,) = (artifact for artifact in left.values() if artifact["type"] == "progress")
    assert progress["data"] == 100.0
    lines = left[f"edition-{RELEASE}"]["data"].splitlines()
    assert lines[0] == f"# Edition {RELEASE}" and "eport" in lines[2]
    counted = {row["slot"]: row for row in json.loads(left[f"counts-{RELEASE}"]["data"])}
    assert counted["topics"]["kept"] > 0
    page.goto(f"{site.url}/runs/flow-run/{run}", wait_until="domcontentloaded")
    page.get_by_text("statistics").first.wait_for()
    page.screenshot(path=out / "run.png", full_page=True)
    page.goto(f"{site.url}/artifacts/artifact/{left[f'counts-{RELEASE}']['id']}", wait_until="domcontentloaded")
    page.get_by_text("paper_records").first.wait_for()
    page.screenshot(path=out / "counts.png", full_page=True)


def test_the_form_refuses_a_value_out_of_range_and_says_why(site, page, out):
    name = open_form(site, page, "discovery", {"settings": {"cutoff": 50_000}})
    page.get_by_role("button", name="Submit").click()

    wrong = page.locator("input:invalid")
    wrong.first.wait_for()
    page.screenshot(path=out / "refused.png", full_page=True)
    assert wrong.evaluate_all("fields => fields.map(field => field.validationMessage)") == [
        "Value must be less than or equal to 10000."
    ]
    assert runs_named(site, name) == []


def test_the_stages_to_run_again_are_a_list_to_choose_from(site, page, out):
    open_form(site, page, "rerun-stage", {"edition": RELEASE, "stage": "topics", "mode": "force"})

    shown = page.locator("body").inner_text()
    page.screenshot(path=out / "rerun-form.png", full_page=True)
    for words in ("Which stage; all of its slots", "if_failed runs the stage where its dataset is missing"):
        assert words in shown, words


def test_a_broken_release_file_fails_its_stage_and_rerunning_that_stage_in_the_browser_mends_the_edition(
    site, page, undisturbed, tmp_path, out
):
    releases, root = tmp_path / "releases", tmp_path / "store"
    shutil.copytree(site.folder / "releases", releases)
    victim = sorted((releases / RELEASE / "citations").iterdir())[-1]
    content = victim.read_bytes()
    victim.write_bytes(content[: len(content) // 2])
    machine = {"root": str(root), "releases": str(releases), "workers": 1}

    run = site.start("build-corpus", {"release": RELEASE, "settings": CORPUS, "machine": machine})
    failed = site.ended(run)
    assert failed["state_type"] == "FAILED"
    for part in ("citation_records", victim.name):
        assert part in failed["state"]["message"]
    states = site.tasks(run)
    assert states["paper_records"] == "Completed" and states["citation_records"] == "Failed"
    event = wait_for("the event of the failure", lambda: failures(site), 30)
    assert "citation_records" in event[0]["resource"]["prefect.resource.name"]

    victim.write_bytes(content)
    name = open_form(site, page, "rerun-stage", {"edition": RELEASE, "stage": "citation_records", "machine": machine})
    page.screenshot(path=out / "rerun.png", full_page=True)
    page.get_by_role("button", name="Submit").click()
    again = wait_for("the form's run exists", lambda: runs_named(site, name), 60)[0]["id"]
    site.completed(again)
    states = site.tasks(again)
    assert states["citation_records"] == "Completed"
    assert states["paper_records"] == states["abstract_records"] == "Cached"
    assert {"references", "topics", "statistics"} <= {name for name, state in states.items() if state == "Completed"}
    whole_edition = slots(undisturbed)
    assert slots(root).items() <= whole_edition.items()
    assert "topics" in slots(root)


def failures(site: Site) -> list[dict]:
    found = site.post("/events/filter", {"filter": {"event": {"name": ["arena.stage.failed"]}}})
    return found["events"]
