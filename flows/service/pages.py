"""The server of pages: the report of each edition, and the site of the leaderboards.

They show judgments and right answers, which no route of the desk may; so pages and desk never share a server.
"""

from html import escape
from pathlib import Path
from urllib.parse import quote

from fastapi import FastAPI
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles

from flows.service.guards import handle_errors
from schemas.manifest import EditionManifest
from tasks.service.problems import Refused
from tasks.store.editions import Editions
from tasks.store.store import Store

REPORTS = ("report", "search/report", "airqa/report")
"""Slots of an edition that hold a page."""

PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Research Arena</title>
<meta name="viewport" content="width=device-width"><style>body {{ font: 1rem/1.5 sans-serif; margin: 2rem }}</style>
<h1>Reports</h1><ul>{}</ul></html>"""


def make_pages(store: Store, site: Path | None, *, drafts: bool) -> FastAPI:
    """Returns the app that serves `/reports/<edition>/` and, where a site was written, `/site/`, and nothing else.

    Args:
        store: Where the editions are.
        site: Folder that `arena site` has written; None: there is none.
        drafts: Whether editions that are not published are shown too.
    """
    app, editions = FastAPI(openapi_url=None), Editions(store)
    handle_errors(app)

    def shown() -> dict[str, EditionManifest]:
        found = {name: editions.load(name) for name in editions.names()}
        return {name: edition for name, edition in found.items() if edition.published or drafts}

    def find(edition: str) -> Path:
        if known := shown().get(edition):
            for slot in filter(known.slots.__contains__, REPORTS):
                for path in store.open(known.slots[slot]).folder.glob("*.html"):
                    return path
        raise Refused(404, "There is no report of that edition; see / for those there are.")

    @app.get("/reports/{edition}/", include_in_schema=False)
    def report(edition: str) -> Response:
        return FileResponse(find(edition), media_type="text/html")

    @app.get("/", include_in_schema=False)
    def front() -> Response:
        if site and (site / "index.html").is_file():
            return RedirectResponse("/site/")
        names = [name for name, edition in shown().items() if any(slot in edition.slots for slot in REPORTS)]
        return HTMLResponse(
            PAGE.format("".join(f'<li><a href="/reports/{quote(name)}/">{escape(name)}</a></li>' for name in names))
        )

    if site:
        app.mount("/site", StaticFiles(directory=site, html=True, check_dir=False), name="site")
    return app
