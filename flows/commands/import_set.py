"""`arena import`: a published data set as a release."""

from pathlib import Path
from typing import Annotated

from flows.commands.options import FLAT
from flows.commands.terminal import show_json, show_text
from flows.pipeline.machine import ReleaseFolder
from schemas.identifiers import ReleaseName
from tasks.release.researcharena import import_set as write_release


def import_set(
    set_folder: Path,
    /,
    *,
    release: ReleaseName = "2024-02-06",
    folder: Annotated[ReleaseFolder | None, FLAT] = None,
    json: bool = False,
) -> None:
    """Make a release of the data set that the authors of ResearchArena publish; then run: arena build.

    Args:
        set_folder: Folder with survey.jsonl, public_*.jsonl and corpus_*.jsonl.
        release: Name of the new release, a date.
        json: Print the number of lines of each dataset as JSON.
    """
    releases = (folder or ReleaseFolder()).releases
    lines = write_release(set_folder, releases, release)
    if json:
        show_json({"release": release, "lines": lines})
    else:
        counted = ", ".join(f"{number:,} {dataset}" for dataset, number in lines.items())
        show_text(f"release {release} in {releases}: {counted}; next: arena build --release {release}")
