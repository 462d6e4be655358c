"""Makes the small synthetic edition that the notebook reads; running it again finds everything in the store."""

import contextlib
import io
from pathlib import Path

from flows.cli import app
from tasks.demo.release import SyntheticSettings, write_release

EDITION = "2026-01-06"


def make_small_edition(folder: Path) -> Path:
    """Writes a release of 400 invented papers, builds its edition and runs two baselines on it.

    Args:
        folder: Where the release and the store go.

    Returns:
        The store's folder, for `ARENA_ROOT`.
    """
    store, releases = folder / "store", folder / "releases"
    write_release(releases, SyntheticSettings(release=EDITION, papers=400, files=1))
    machine = ["--root", str(store), "--releases", str(releases), "--workers", "1"]
    commands = (
        ["build", "--release", EDITION, "--buckets", "1"],
        ["index", "--engine", "bm25"],
        ["run", "discovery", "--baselines", "title", "feedback", "--retrievers", "bm25"],
    )
    for command in commands:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            app([*command, *machine], exit_on_error=False, print_error=False)
    return store
