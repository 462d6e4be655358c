"""The site over 500 topics and 50 runs: seconds to write it, bytes of the first page, and seconds until it is shown."""

import os
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from tasks.site.site import write_site
from tasks.store.store import Store
from tests.e2e.conftest import ARGUMENTS, CHROMIUM
from tests.site.synthetic import publish_runs, record, tags

TOPICS = int(os.environ.get("ARENA_BENCH_TOPICS", "500"))
RUNS = 50
EDITION = "2026-01-06"
MOST_BYTES, MOST_SECONDS = 3_000_000, 2.0

pytestmark = [pytest.mark.bench, pytest.mark.timeout(3600)]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        return


def test_the_first_pages_are_small_and_shown_at_once(tmp_path: Path) -> None:
    sync_api = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    store = Store(tmp_path / "store")
    record(store, EDITION, publish_runs(store, TOPICS, tags(RUNS), depth=100))
    begin, spent = time.monotonic(), time.process_time()
    write_site(store, [EDITION], tmp_path / "out")
    writing, processor = time.monotonic() - begin, time.process_time() - spent
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path / "out")))
    Thread(target=server.serve_forever, daemon=True).start()
    names = ["index", *(f"{EDITION}/{name}" for name in ("index", "discovery", "topics", "compare", "topics/1"))]
    names.append(f"{EDITION}/systems/{tags(1)[0]}")
    shown = Table("page", "bytes, all files", "seconds until loaded", title=f"{TOPICS} topics, {RUNS} runs")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        found = {name: _load(browser, f"http://127.0.0.1:{server.server_port}/{name}.html") for name in names}
        browser.close()
    server.shutdown()
    for name, (size, seconds) in found.items():
        shown.add_row(name, f"{size:,}", f"{seconds:.2f}")
    files = [path.stat().st_size for path in (tmp_path / "out").rglob("*") if path.is_file()]
    console = Console()
    console.print(shown)
    console.print(
        f"written in {writing:.0f} s ({processor:.0f} s of processor time): {len(files):,} files, {sum(files):,} bytes"
    )
    assert all(size < MOST_BYTES for size, _ in found.values())
    assert all(seconds < MOST_SECONDS for _, seconds in found.values())


def _load(browser: Any, address: str) -> tuple[int, float]:
    """Bytes of all that a page asks for, and seconds until its scripts have run, in a new profile."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    sizes: list[int] = []
    page.on("response", lambda response: sizes.append(len(response.body())))
    page.goto(address, wait_until="load")
    seconds = page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd / 1000")
    context.close()
    return sum(sizes), seconds
