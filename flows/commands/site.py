"""`arena site`: the leaderboards of all editions as a folder of static pages."""

from pathlib import Path

from flows.commands.options import Folder, open_store, writes_to
from flows.commands.terminal import show_json, show_text
from schemas.errors import UsageError
from schemas.identifiers import EditionName
from tasks.store.editions import Editions


def site(*, to: Path, edition: tuple[EditionName, ...] = (), folder: Folder = None, json: bool = False) -> None:
    """Write the leaderboards of all editions as static pages, which need no server and no network.

    Args:
        to: Folder to write to; an earlier site there is replaced.
        edition: Only these editions; left out: all of the store.
        json: Print what was written as JSON.
    """
    from tasks.reports.blocks import counted
    from tasks.site.site import write_site

    store = open_store(folder)
    names = sorted(edition) or Editions(store).names()
    if not names:
        raise UsageError(f"{store.root} has no edition; build one first: arena build")
    with writes_to(to):
        written = write_site(store, names, to)
    if json:
        show_json({"editions": list(written.editions), "pages": written.pages, "site": str(to / "index.html")})
    else:
        told = f"{counted(written.pages, 'page')} on {counted(len(names), 'edition')}"
        show_text(f"site: {told}: {to / 'index.html'}")
