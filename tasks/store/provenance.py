"""What a manifest says of a build beside its request: the files, the packages and the commit they were made with."""

import os
import subprocess
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from schemas.manifest import FileEntry
from tasks.store.dataset import describe_file
from tasks.store.shard import MARKERS, SCRATCH

RECORDED_PACKAGES = ("pyarrow", "duckdb", "tantivy", "faiss-cpu", "sentence-transformers", "torch", "numpy")


def list_files(staging: Path, described: Mapping[str, FileEntry]) -> tuple[FileEntry, ...]:
    """Returns the entries of all files of a build, sorted by path; those that are `described` are not read again."""
    here = {
        str(path.relative_to(staging))
        for path in staging.rglob("*")
        if path.is_file() and path.relative_to(staging).parts[0] not in (MARKERS, SCRATCH, "manifest.json")
    }
    names = sorted(here | described.keys())  # a shared folder may list late what another machine has written
    return tuple(described.get(name) or describe_file(staging, name) for name in names)


def package_versions() -> dict[str, str]:
    """Returns the versions of the recorded packages that are installed."""
    found: dict[str, str] = {}
    for name in RECORDED_PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def git_commit() -> str | None:
    """Returns the commit that the code is checked out at; None when it is not in a git repository."""
    folder = Path(__file__).parent
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), "rev-parse", "HEAD"],
            capture_output=True,
            text=True,
            timeout=5,
            check=False,
            env={"PATH": os.defpath},
        )
    except OSError:
        return None
    return done.stdout.strip() or None
