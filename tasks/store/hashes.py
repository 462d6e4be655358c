"""Hashes of a dataset's files against its manifest, and a record of when each was last found right.

A file is not read again while its inode, size, time of change and time of status change stay the same. The record of a
dataset, `ROOT/.verified/<stage>-<key>.json`, may be deleted at any time: the files are then hashed once more.
"""

import hashlib
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from schemas.errors import StoreError
from schemas.identifiers import Digest
from schemas.manifest import FileEntry, Manifest
from tasks.store.whole_files import read_record, write_record

VERIFIED = ".verified"
"""Folder of a store with the records."""

SETTLED_NS = 50_000_000
"""Nanoseconds after which a change of a file shows in its times; a younger file is hashed again."""

State = tuple[int, int, int, int]
"""A file's inode, size, time of change and time of status change; times in nanoseconds."""


class Problem(NamedTuple):
    """Something wrong with a stored file."""

    path: Path
    what: str


class _Verified(BaseModel):
    """When every byte of a dataset was last read, and the state of each file whose hash was right."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    digest: Digest
    read: datetime
    files: dict[str, State]


def record_path(folder: Path) -> Path:
    """Returns the path of a dataset's record."""
    return folder.parents[1] / VERIFIED / f"{folder.parent.name}-{folder.name}.json"


def last_read(folder: Path) -> datetime | None:
    """Returns when every byte of a dataset was last read and hashed; None when no record says so."""
    found = _read(folder)
    return found.read if found else None


def find_problems(folder: Path, manifest: Manifest, *, reread: bool = False) -> list[Problem]:
    """Returns the files of a dataset that are missing or differ from the manifest, by size and hash.

    Args:
        folder: The dataset's.
        manifest: Its manifest.
        reread: Hash every file, even one that has the state in which its hash was right: a disk that loses bits does
            not change it.
    """
    found = None if reread else _read(folder)
    known = found.files if found and found.digest == manifest.digest else {}
    states = {entry.path: _state(folder / entry.path) for entry in manifest.files}
    unread = [entry for entry in manifest.files if known.get(entry.path) != states[entry.path]]
    if not unread and not reread:
        return []
    problems = check_files(folder, unread)
    wrong = {problem.path for problem in problems}
    right = {name: state for name, state in states.items() if state and folder / name not in wrong}
    _write(folder, manifest.digest, right, found.read if found else None)
    return problems


def remember(folder: Path, manifest: Manifest) -> None:
    """Records that the files of a dataset, which were hashed when they were written, are right as they are."""
    states = {entry.path: _state(folder / entry.path) for entry in manifest.files}
    _write(folder, manifest.digest, {name: state for name, state in states.items() if state}, None)


def check_files(folder: Path, entries: Sequence[FileEntry]) -> list[Problem]:
    """Hashes files, several at once, and returns what differs from their entries."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return [problem for problem in pool.map(partial(_check_hash, folder), entries) if problem]


def check_size(path: Path, entry: FileEntry) -> Problem | None:
    """Returns the problem of a file that is missing or of another size."""
    if not path.is_file():
        return Problem(path, "is missing")
    size = path.stat().st_size
    return Problem(path, f"has {size} bytes, the manifest says {entry.size}") if size != entry.size else None


def sha256_file(path: Path) -> str:
    """Returns the sha256 of a file, in hexadecimal."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _check_hash(folder: Path, entry: FileEntry) -> Problem | None:
    path = folder / entry.path
    try:
        if problem := check_size(path, entry):
            return problem
        found = sha256_file(path)
    except OSError as error:
        return Problem(path, f"cannot be read ({error.strerror})")
    return Problem(path, f"has sha256 {found}, the manifest says {entry.sha256}") if found != entry.sha256 else None


def _state(path: Path) -> State | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def _read(folder: Path) -> _Verified | None:
    try:
        return read_record(record_path(folder), _Verified, "delete it")
    except StoreError:
        return None


def _write(folder: Path, digest: Digest, right: dict[str, State], read: datetime | None) -> None:
    settled = time.time_ns() - SETTLED_NS
    files = {name: state for name, state in right.items() if max(state[2:]) < settled}
    path = record_path(folder)
    try:
        path.parent.mkdir(exist_ok=True)
        write_record(path, _Verified(digest=digest, read=read or datetime.now(UTC), files=files))
    except OSError:  # a store that is read-only or full: the files are hashed again
        return
