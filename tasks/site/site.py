"""Writes the site: a folder of static pages over all editions of a store."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
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


class Written(NamedTuple):
    """What was written."""

    editions: tuple[str, ...]
    pages: int


def write_site(store: Store, editions: Sequence[str], folder: Path) -> Written:
    """Writes the site, and puts it in the place of an earlier one in the folder, whose pages can be read until then.

    Args:
        store: Where the editions are.
        editions: Their names, in the order of time.
        folder: Where the site goes. Pages of an earlier site there are removed, other files are left alone.

    Raises:
        UsageError: There is no such edition.
        StoreError: A dataset is damaged.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder, prefix=".new-") as name:
        made = Path(name)
        pages = _write(store, editions, made)
        for path in sorted(made.iterdir(), key=lambda path: (path.is_file(), path.name)):
            _put(path, folder / path.name)
    return Written(tuple(editions), pages)


def _put(path: Path, target: Path) -> None:
    """Puts a file, or the folder of an edition, into the place of an earlier one."""
    if (target / "index.html").is_file():
        target.rename(path.with_name(f".old-{path.name}"))
    if path.is_dir() and target.is_dir():
        shutil.copytree(path, target, dirs_exist_ok=True)
    else:
        path.replace(target)


def _write(store: Store, editions: Sequence[str], folder: Path) -> int:
    """Writes all files into an empty folder; returns the number of pages."""
    for room, name in (("reports", "style.css"), ("site", "site.js")):
        shutil.copyfile(Path(__file__).parents[1] / room / name, folder / name)
    made = [_open(store, folder, name) for name in editions]
    for one in made:
        one.write()
    shelf = Shelf(folder, "", FOOT)
    for page in _front_pages(made):
        shelf.write(page)
    return sum(1 for _ in folder.rglob("*.html"))


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
    links += [(one.title, f"{one.name}/index.html") for one in reversed(made)]
    cards = [
        {
            "title": title,
            "href": f"{one.name}/{href}",
            "rows": [(label._replace(page=f"{one.name}/{label.page}"), score) for label, score in rows],
            "measure": f"{one.title}: {measure}",
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
