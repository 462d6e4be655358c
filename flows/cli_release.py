"""Commands that look at releases on disk.

What belongs here: listing and checking a local mirror. What does not: reading records (`tasks/release`).
"""

from typing import Annotated

from flows import tables
from flows.cli_build import FLAT
from flows.machine import Machine, ReleaseFolder
from flows.pipeline import open_files
from flows.terminal import show_json, show_rows
from tasks.release.mirror import list_releases


def list_found(*, folder: Annotated[ReleaseFolder | None, FLAT] = None, json: bool = False) -> None:
    """List the releases in a local mirror.

    Args:
        json: Print as JSON.
    """
    releases = (folder or ReleaseFolder()).releases
    rows: list[tables.Row] = [{"release": release} for release in list_releases(releases)]
    if json:
        show_json(rows)
    else:
        show_rows(rows, f"releases in {releases}")


def check(
    release: str | None = None, /, *, machine: Annotated[Machine | None, FLAT] = None, json: bool = False
) -> None:
    """Check that a release is complete and its files can be read; fingerprint them.

    Args:
        release: Its id; the newest when not given.
        json: Print as JSON.
    """
    files = open_files(machine or Machine(), release)
    rows: list[tables.Row] = [
        {
            "dataset": name,
            "files": len(dataset.files),
            "MB": round(sum(file.size for file in dataset.files) / 1e6, 1),
            "digest": dataset.digest[:12],
        }
        for name, dataset in files.items()
    ]
    if json:
        show_json({"release": files["papers"].release, "datasets": rows})
    else:
        show_rows(rows, f"release {files['papers'].release}", decimals=1)
