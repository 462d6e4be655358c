"""The site in a browser: sorting, filtering, comparison, drill-down, downloads, small screens, accessibility."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

from tasks.site.site import write_site
from tasks.store.store import Store
from tests.site.conftest import FIRST_SET, NEW, OLD, OURS, THEIRS, TOPICS, publish_everything

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

AXE = "axe-core@4.14.1"
"""Checks accessibility; from npm, for this test alone (MPL-2.0)."""

WIDTHS = (1440, 1024, 390)
PRINTED = 703
"""CSS pixels between the margins of a page of A4."""

SERIOUS = ("serious", "critical")

pytestmark = [pytest.mark.e2e, pytest.mark.ui, pytest.mark.timeout(420)]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        return


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    publish_everything(Store(folder / "store"))
    write_site(Store(folder / "store"), [OLD, NEW], folder / "out")
    return folder / "out"


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()


@pytest.fixture
def page(browser: "Browser") -> Iterator["Page"]:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, accept_downloads=True)
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    yield page
    context.close()
    assert problems == []


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    folder = tmp_path_factory.mktemp("axe")
    subprocess.run(["npm", "install", "--silent", "--prefix", str(folder), AXE], check=True, timeout=240)
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text()


def kinds(folder: Path) -> list[str]:
    """One page of each kind."""
    edition = folder / NEW
    one = ["topics", "systems", "questions", "answerers", f"search/{FIRST_SET}/queries", f"search/{FIRST_SET}/engines"]
    drilled = [str(sorted((edition / kind).glob("*.html"))[0].relative_to(folder)) for kind in [*one, "discovery"]]
    named = ("index", "discovery", "selection", "questions", "compare", "topics", "fresh", "corpus")
    return ["index.html", "over-time.html", *(f"{NEW}/{name}.html" for name in named),
            f"{NEW}/search/{FIRST_SET}/index.html", *drilled]  # fmt: skip


def column(page: "Page", name: str) -> list[str]:
    """Texts of a column of the first table, top to bottom, of rows that are shown."""
    table = page.locator("table").first
    place = table.locator("thead th").all_inner_texts().index(name) + 1
    cells = table.locator(f"tbody tr:not([hidden]) > :nth-child({place})")
    return [text.split()[0] for text in cells.all_inner_texts()]


def test_a_table_is_sorted_by_any_column_with_mouse_and_keyboard(page, address):
    page.goto(f"{address}/{NEW}/discovery.html")
    assert column(page, "#") == ["1", "2", "3", "4"]
    head = page.locator("table").first.locator("thead th", has_text=re.compile(r"^Recall@10$"))
    head.get_by_role("button").click()
    values = [float(text) for text in column(page, "Recall@10")]
    assert values == sorted(values, reverse=True) and head.get_attribute("aria-sort") == "descending"
    head.get_by_role("button").focus()
    page.keyboard.press("Enter")
    values = [float(text) for text in column(page, "Recall@10")]
    assert values == sorted(values) and head.get_attribute("aria-sort") == "ascending"


def test_rows_are_filtered_and_counted(page, address):
    page.goto(f"{address}/{NEW}/discovery.html")
    page.get_by_label("From").select_option("submitted")
    assert column(page, "#") and len(column(page, "#")) == 1
    assert page.locator("output").first.inner_text() == "1 of 4 rows"
    page.get_by_label("Model").select_option("stand-in")
    assert page.locator("output").first.inner_text() == "0 of 4 rows"
    page.get_by_label("From").select_option("")
    assert page.locator("output").first.inner_text() == "1 of 4 rows"


def test_the_names_of_runs_are_shown_on_demand(page, address):
    page.goto(f"{address}/{NEW}/discovery.html")
    name = page.get_by_text(OURS[0], exact=True).first
    assert not name.is_visible()
    page.get_by_label("names of runs").first.check()
    assert name.is_visible()


def test_one_gets_from_the_first_page_to_a_topic_and_to_semantic_scholar(page, address):
    page.goto(address)
    page.get_by_role("link", name="Information discovery").click()
    page.get_by_role("link", name="Title · BM25 · abstract").first.click()
    assert page.get_by_role("heading", level=1).inner_text() == "Title · BM25 · abstract"
    page.get_by_role("link", name="Survey 5", exact=True).click()
    assert page.url.endswith("/topics/5.html")
    links = page.locator("#references a[rel=noopener]")
    assert links.count() == 12 and links.first.get_attribute("href").startswith(
        "https://api.semanticscholar.org/CorpusID:"
    )
    page.get_by_role("link", name=f"Edition {NEW}").click()
    assert page.url.endswith(f"/{NEW}/index.html")


def test_two_runs_are_compared_topic_by_topic(page, address):
    page.goto(f"{address}/{NEW}/compare.html#first={OURS[0]}&second={THEIRS}")
    verdict = page.locator("#verdict").inner_text()
    wins, losses, equal = (
        int("".join(filter(str.isdigit, part))) for part in verdict.split(": ")[1].split(";")[0].split(",")
    )
    assert wins + losses + equal == TOPICS and wins > losses and "told apart" in verdict
    assert page.locator("#pairs tbody tr").count() == TOPICS
    page.locator("#second").select_option(label=page.locator("#first option").first.inner_text())
    page.locator("#first").select_option(index=0)
    assert page.locator("#verdict").inner_text() == "Choose two different runs."


def test_tables_runs_and_scores_are_downloaded(page, address, folder):
    page.goto(f"{address}/{NEW}/discovery.html")
    for name, where in {
        "CSV": "tables/discovery-discovery.csv",
        "all scores (Parquet)": "files/scores.parquet",
    }.items():
        with page.expect_download() as download:
            page.get_by_role("link", name=name, exact=True).first.click()
        assert Path(download.value.path()).read_bytes() == (folder / NEW / where).read_bytes()
    page.goto(f"{address}/{NEW}/systems/{OURS[0]}.html")
    with page.expect_download() as download:
        page.get_by_role("link", name="TREC run").click()
    assert Path(download.value.path()).read_text().split()[5] == OURS[0]


def test_pages_ask_for_nothing_outside_and_work_from_a_folder(page, address, folder):
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for name in kinds(folder):
        page.goto(f"{address}/{name}")
    assert all(url.startswith((address, "data:")) for url in asked)
    page.goto((folder / NEW / "discovery.html").as_uri())
    page.get_by_label("From").select_option("submitted")
    assert page.locator("output").first.inner_text() == "1 of 4 rows"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_every_kind_of_page_fits_and_has_no_serious_finding(browser, address, folder, axe, out, width, scheme):
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    found: list[str] = []
    for name in kinds(folder):
        page.goto(f"{address}/{name}")
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        page.screenshot(path=out / f"site-{name.replace('/', '-')}-{width}-{scheme}.png", full_page=True)
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{name} is {wide} pixels wider than the screen"
        page.evaluate(axe)
        results = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        found += [
            f"{name}: {one['id']}: {one['nodes'][0]['html'][:200]}"
            for one in results["violations"]
            if one["impact"] in SERIOUS
        ]
    context.close()
    assert found == [], json.dumps(found, indent=1)


def test_a_phone_shows_the_score_beside_the_name(browser, address):
    context = browser.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    page.goto(f"{address}/{NEW}/discovery.html")
    box = page.locator("tbody tr").first.locator("td.bar").bounding_box()
    assert box is not None and box["x"] + box["width"] <= 390
    context.close()


def test_a_printed_leaderboard_has_every_column_and_what_is_folded_on_the_screen(page, address):
    page.set_viewport_size({"width": PRINTED, "height": 1000})
    page.emulate_media(media="print")
    page.goto(f"{address}/{NEW}/discovery.html")
    assert page.evaluate("document.documentElement.scrollWidth") <= PRINTED
    meaning = page.locator("figure details.small:not([open]) dd").first
    assert meaning.bounding_box()["height"] > 0
    page.emulate_media(media="screen")
    assert not meaning.is_visible()
