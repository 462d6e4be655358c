"""Finds the releases and diffs of a mirror that nobody needs any more."""

import shutil
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from tasks.release.diffs import DIFFS
from tasks.release.listing import list_entries
from tasks.release.mirror import list_releases


class OldFiles(NamedTuple):
    """A folder of a mirror that can be deleted, its size in bytes, and why."""

    path: Path
    size: int
    why: str


def find_old(releases: Path, keep: int, built: str, needed: Collection[str]) -> list[OldFiles]:
    """Returns the whole releases, and the diffs, that can be deleted.

    A whole release can go when `keep` newer ones are there, and no unpublished edition is built from it. Diffs can go
    when they lead to a release before the newest published edition's: an edition is never built from older ones.

    Args:
        releases: The mirror.
        keep: Newest whole releases that stay, >= 1.
        built: Release of the newest published edition; empty: there is none, then nothing is old.
        needed: Releases of unpublished editions.
    """
    if not built:
        return []
    whole = [name for name in list_releases(releases)[:-keep] if name < built and name not in needed]
    found = [OldFiles(releases / name, _size(releases / name), f"{keep} newer releases are kept") for name in whole]
    for path in list_entries(releases / DIFFS):
        end = path.name.partition("_")[2]
        if end and end < built and end not in needed and path.is_dir() and not path.is_symlink():
            found.append(OldFiles(path, _size(path), f"the edition of {built} is built and published"))
    return found


def delete_old(old: Collection[OldFiles]) -> None:
    """Deletes what `find_old` has found."""
    for folder in old:
        shutil.rmtree(folder.path)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
