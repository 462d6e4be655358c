"""Writes the site: a folder of static pages over all editions of a store."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tasks.site.edition_pages import EditionSite
from tasks.site.pages import Page, Shelf
from tasks.site.time_pages import over_time_parts
from tasks.store.editions import Editions
from tasks.store.store import Store

FOOT = {
    "How to cite": (
        "Name the edition and its release beside every figure. The tasks are those of ResearchArena (arXiv "
        "2406.10291), Paper Lantern and AirQA: cite the paper of the task."
    ),
    "Licence": (
        "Scores, rankings and code: Apache-2.0. Titles, dates and links are Semantic Scholar's (ODC-BY 1.0); the pages "
        "hold no abstracts or full texts."
    ),
    "Made by": "arena site --to FOLDER. Every table can be downloaded as CSV.",
}
"""What stands below every page."""

MADE = "site.js"
"""File by which a folder is known to hold a site."""


class Written(NamedTuple):
    """What was written."""

    editions: tuple[str, ...]
    pages: int


def write_site(store: Store, editions: Sequence[str], folder: Path) -> Written:
    """Writes the site, and puts it in the place of an earlier one in the folder.

    Args:
        store: Where the editions are.
        editions: Their names, in the order of time.
        folder: Where the site goes. Pages of an earlier site there are removed, other files are left alone.

    Raises:
        UsageError: There is no such edition.
        StoreError: A dataset is damaged.
    """
    for name in editions:
        if (folder / name / "index.html").is_file() and (folder / MADE).is_file():
            shutil.rmtree(folder / name)
    folder.mkdir(parents=True, exist_ok=True)
    for room, name in (("reports", "style.css"), ("site", MADE)):
        shutil.copyfile(Path(__file__).parents[1] / room / name, folder / name)
    made = [_open(store, folder, name) for name in editions]
    for one in made:
        one.write()
    shelf = Shelf(folder, "", FOOT)
    for page in _front_pages(made):
        shelf.write(page)
    return Written(tuple(editions), sum(1 for _ in folder.rglob("*.html")))


def _open(store: Store, folder: Path, name: str) -> EditionSite:
    edition = Editions(store).load(name)
    slots = {slot: store.open(ref) for slot, ref in edition.slots.items()}
    return EditionSite(name, edition.release, edition.published is not None, slots, Shelf(folder, name, FOOT))


def _front_pages(made: Sequence[EditionSite]) -> Iterator[Page]:
    """Yields the first page, which shows the newest edition and leads to all, and the page over time."""
    newest = [one for one in made if one.boards or one.searches or one.questions][-1:]
    scored = {one.name: one.ranking for one in made if one.boards}
    over_time = tuple(over_time_parts(scored))
    links = [("All editions", "index.html")]
    if over_time:
        links.append(("Over time", "over-time.html"))
        lead = "The same runs on editions of different weeks."
        yield Page("over-time", "Scores over time", lead, over_time, links=tuple(links))
    links += [(f"Edition {one.name}", f"{one.name}/index.html") for one in reversed(made)]
    cards = [
        {
            "title": title,
            "href": f"{one.name}/{href}",
            "rows": [(label._replace(page=f"{one.name}/{label.page}"), score) for label, score in rows],
            "measure": f"Edition {one.name}: {measure}",
        }
        for one in newest
        for title, href, rows, measure in one.summary()
    ]
    lead = (
        "Systems that find, rank and organize the literature of a field, search engines for researchers' queries, and "
        "systems that answer questions over papers."
    )
    warnings = newest[0].warnings if newest else ()
    yield Page(
        "index", "Research Arena", lead, warnings=warnings, links=tuple(links), extra={"cards": cards},
        template="edition.html.jinja",
    )  # fmt: skip
