"""Pages of `arena serve`: reports of editions and the site; drafts are for this machine alone."""

import shutil
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from flows.pipeline.site import SITE_URL, report_link, site_url
from flows.pipeline.walk import Pipeline
from flows.service.guards import handle_errors
from flows.service.pages import add_pages
from schemas.errors import UsageError
from tasks.store.editions import Editions
from tasks.store.store import Store
from tests.flows.conftest import direct

NAME = "2026-01-06"


@pytest.fixture
def reported(built: Path, tmp_path: Path) -> Store:
    shutil.copytree(built / "store", tmp_path / "store")
    store = Store(tmp_path / "store")
    Pipeline(store, NAME, direct(store)).write_report()
    return store


def browse(store: Store, *, drafts: bool, site: Path | None = None) -> TestClient:
    app = FastAPI()
    handle_errors(app)
    add_pages(app, store, site, drafts=drafts)
    return TestClient(app)


def test_a_report_is_a_page_at_the_address_that_artifacts_link_to(reported: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(SITE_URL, "http://testserver/")
    site = site_url()
    assert site == "http://testserver"
    page = browse(reported, drafts=True).get(report_link(site, NAME))
    assert page.status_code == 200 and page.headers["content-type"].startswith("text/html")
    folder = reported.folder(Editions(reported).load(NAME).slots["report"])
    assert page.content == (folder / "report.html").read_bytes()
    assert f'href="/reports/{NAME}/"' in browse(reported, drafts=True).get("/").text
    monkeypatch.setenv(SITE_URL, "arena.example")
    with pytest.raises(UsageError, match="begins with http"):
        site_url()


def test_others_see_published_editions_only_and_nothing_outside(reported: Store):
    others = browse(reported, drafts=False)
    assert others.get(f"/reports/{NAME}/").status_code == 404 and NAME not in others.get("/").text
    Editions(reported).publish(NAME)
    assert others.get(f"/reports/{NAME}/").status_code == 200
    for path in ("none", "%2e%2e%2feditions", f"{NAME}%2f..%2f{NAME}"):
        assert others.get(f"/reports/{path}/").status_code == 404


def test_the_site_is_served_from_its_folder(reported: Store, tmp_path: Path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("leaderboards")
    pages = browse(reported, drafts=False, site=tmp_path / "site")
    assert pages.get("/").text == "leaderboards"
    assert pages.get("/site/../store/editions/2026-01-06.json").status_code == 404
