"""Deletes datasets and unfinished builds that no edition needs."""

import fcntl
import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from tasks.store.dataset import OPENED
from tasks.store.editions import Editions
from tasks.store.hashes import VERIFIED
from tasks.store.store import Store
from tasks.store.whole_files import DRAFT

GRACE = timedelta(hours=24)
"""Younger folders are kept: a dataset is recorded in its edition only after it was built."""

KEY = re.compile(r"[0-9a-f]{32}")
"""The folder of a dataset is named by its key."""


class Garbage(NamedTuple):
    """A folder that no edition needs: its path, its size in bytes, and why it can be deleted."""

    path: Path
    size: int
    why: str


def collect(store: Store, *, dry_run: bool = True, older_than: timedelta = GRACE) -> list[Garbage]:
    """Finds datasets, replaced datasets and unfinished builds that no edition needs; deletes them without `dry_run`.

    A build that is running keeps its lock, so its folder is left alone.

    Args:
        store: Where to look.
        dry_run: Only say what would be deleted.
        older_than: Spare what was changed more recently than this.
    """
    editions = Editions(store)
    reached = {store.folder(ref) for name in editions.names() for ref in editions.reaches(name)}
    before = (datetime.now(UTC) - older_than).timestamp()
    found = [g for g in _unreached(store.root, reached) if g.path.stat().st_mtime <= before]
    if dry_run:
        return found
    return [garbage for garbage in found if _delete(store.root, garbage.path)]


def _unreached(root: Path, reached: set[Path]) -> Iterator[Garbage]:
    for folder in sorted(root.glob("[a-z]*/*")):
        if KEY.fullmatch(folder.name) and folder not in reached:
            yield Garbage(folder, _size(folder), "no edition reaches it")
    for folder in sorted((root / ".staging").glob("*/*")):
        yield Garbage(folder, _size(folder), "unfinished build")
    keys = {path.parent.name for path in root.glob("[a-z]*/*/manifest.json")}
    for folder in sorted((root / OPENED).glob("*")):
        if folder.name.partition("-")[0] not in keys:
            yield Garbage(folder, 0, "links to a dataset that is gone")
    for record in sorted((root / VERIFIED).glob("*.json")):
        if record.stem.rpartition("-")[2] not in keys:
            yield Garbage(record, record.stat().st_size, "says when the files of a dataset that is gone were read")
    for draft in sorted(path for path in root.glob("*/.*") if DRAFT.fullmatch(path.name)):
        yield Garbage(draft, draft.stat().st_size, "was being written when a process was killed")
    for folder in sorted((root / ".trash").glob("*")):
        yield Garbage(folder, _size(folder), "was replaced by a rebuild")


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _delete(root: Path, folder: Path) -> bool:
    """Deletes a folder under its build's lock; False when a build holds it. A dataset leaves by one rename first."""
    with (root / ".locks" / f"{folder.parent.name}-{folder.name}").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        trash = root / ".trash" / f"deleted-{folder.parent.name}-{folder.name}"
        folder.rename(trash)
        if trash.is_dir():
            shutil.rmtree(trash)
        else:
            trash.unlink()
    return True
