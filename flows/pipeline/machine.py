"""Where a run finds its folders, and what it may use of the machine."""

import os
from pathlib import Path

from pydantic import Field

from schemas.settings import Resources, Settings


def _root() -> Path:
    return Path(os.environ.get("ARENA_ROOT", "arena-root"))


def _releases() -> Path:
    return Path(os.environ.get("ARENA_RELEASES", "releases"))


class StoreFolder(Settings):
    """The store; its default is that of the machine that runs, not of the one that asks."""

    root: Path = Field(default_factory=_root, description="Folder of the store (environment: ARENA_ROOT).")


class ReleaseFolder(Settings):
    """The local mirror; its default is that of the machine that runs, not of the one that asks."""

    releases: Path = Field(
        default_factory=_releases, description="Folder with one folder a release (environment: ARENA_RELEASES)."
    )


class Machine(Resources, ReleaseFolder, StoreFolder):
    """Folders and resources of a run."""
