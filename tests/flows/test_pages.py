"""Pages and desk never share a server; drafts are for this machine alone."""

import shutil
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from flows.pipeline.site import SITE_URL, report_link, site_url
from flows.pipeline.walk import Pipeline
from flows.service.pages import make_pages
from schemas.errors import UsageError
from tasks.store.editions import Editions
from tasks.store.store import Store
from tests.flows.conftest import Arena, direct

NAME = "2026-01-06"


@pytest.fixture
def reported(built: Path, tmp_path: Path) -> Store:
    shutil.copytree(built / "store", tmp_path / "store")
    store = Store(tmp_path / "store")
    Pipeline(store, NAME, direct(store)).write_report()
    return store


def browse(store: Store, *, drafts: bool, site: Path | None = None) -> TestClient:
    return TestClient(make_pages(store, site, drafts=drafts))


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


def served_app(arena: Arena, monkeypatch: pytest.MonkeyPatch, *options: object) -> FastAPI:
    """Returns the app that `arena serve` would listen with."""
    apps: list[FastAPI] = []

    class Server:
        def __init__(self, app: FastAPI, _: object) -> None:
            apps.append(app)

        def run(self, _: object) -> None: ...

    monkeypatch.setattr("flows.service.serve.make_server", Server)
    code, _, told = arena("serve", "--port", 0, *options)
    assert code == 0, told
    return apps[0]


def test_no_route_of_the_desk_leads_to_a_page(arena: Arena, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    store = Store(tmp_path / "store")
    Pipeline(store, NAME, direct(store)).write_report()
    Editions(store).publish(NAME)
    app = served_app(arena, monkeypatch)
    with TestClient(app) as client:
        for path in (f"/reports/{NAME}/", f"/reports/{NAME}", "/reports/", "/reports", "/site/", "/site", "/"):
            assert client.get(path).status_code == 404, path
        assert "Mount" not in {type(route).__name__ for route in app.routes}, "the desk has no folder to serve"
        paths = {*app.openapi()["paths"], *(route.path for route in app.routes if hasattr(route, "path"))}
        assert len(paths) > 15
        for path in (path.replace("{run}", NAME) for path in paths):
            for reply in (client.get(path), client.post(path)):
                kind = reply.headers["content-type"].partition(";")[0]
                assert "json" in kind or path in ("/docs", "/docs/oauth2-redirect", "/redoc"), path


def test_the_server_of_pages_has_no_desk(arena: Arena, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    app = served_app(arena, monkeypatch, "--pages", "--host", "0.0.0.0")
    with TestClient(app) as client:
        assert client.get("/").status_code == 200
        for path in ("/v1/health", "/v1/editions", "/v1/runs", "/v1/search", "/mcp", "/docs", "/openapi.json"):
            assert {client.get(path).status_code, client.post(path).status_code} == {404}, path
    assert not (tmp_path / "store" / "served").exists(), "pages keep no record"
    code, _, told = arena("serve", "--site", tmp_path)
    assert code == 2 and "--pages" in told
