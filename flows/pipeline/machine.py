"""Settings of the machine that runs: its folders and resources."""

import os
from pathlib import Path

from pydantic import Field

from schemas.settings import Resources, Settings


def _root() -> Path:
    return Path(os.environ.get("ARENA_ROOT", "arena-root"))


def _releases() -> Path:
    return Path(os.environ.get("ARENA_RELEASES", "releases"))


class StoreFolder(Settings):
    """The store folder. The default comes from the machine that runs, not from the one that submits the run."""

    root: Path = Field(default_factory=_root, description="Folder of the store (environment: ARENA_ROOT).")


class ReleaseFolder(Settings):
    """The local mirror. The default comes from the machine that runs, not from the one that submits the run."""

    releases: Path = Field(
        default_factory=_releases, description="Folder with one folder per release (environment: ARENA_RELEASES)."
    )


class Machine(Resources, ReleaseFolder, StoreFolder):
    """Folders and resources of a run."""
