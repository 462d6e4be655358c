"""Checks once for each file system that it supports what the store relies on.

The store assumes that a rename replaces atomically and works on folders, that `flock` excludes two builders on all
machines that mount the folder, and that fsync works. Hard links are used if they are available.
"""

import errno
import fcntl
import logging
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from schemas.errors import StoreError
from tasks.store.whole_files import fsync_path, read_record, write_record

log = logging.getLogger(__name__)

RECORD = ".storage.json"
MOUNTS = Path("/proc/self/mountinfo")

LOCKS_OF_ONE_MACHINE = {
    "nfs": ("nolock", "local_lock=all", "local_lock=flock"),
    "nfs4": ("nolock", "local_lock=all", "local_lock=flock"),
    "lustre": ("localflock", "noflock"),
    "ceph": ("noflock",),
}
"""Mount options that make flock local to one machine, by kind of file system."""

NO_FILE_SYSTEMS = (
    "fuse.s3fs",
    "fuse.gcsfuse",
    "fuse.goofys",
    "fuse.geesefs",
    "fuse.rclone",
    "fuse.sshfs",
    "fuse.mount-s3",
)
"""Mounts of object stores and SSH, whose renames are copies or whose locks are local to one machine."""


class Mount(NamedTuple):
    """A mounted file system as the kernel lists it."""

    kind: str
    source: str
    options: tuple[str, ...]

    @property
    def identity(self) -> str:
        """Identifies the file system; equal on all machines that mount it in the same way."""
        return f"{self.kind} {self.source} {','.join(self.options)}"


class StorageRecord(BaseModel):
    """The result of the check, stored in the folder itself.

    Attributes:
        mounts: Identities of the file systems that passed, one for each way in which machines mount the folder.
        hard_links: Whether files can be published again without copying.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    mounts: tuple[str, ...]
    hard_links: bool


def check_storage(root: Path) -> None:
    """Refuses a folder whose file system violates an assumption; cheap after the first check.

    Args:
        root: Existing, writable folder of the store.

    Raises:
        StoreError: An assumption does not hold; the message says which, and on what kind of file system.
        OSError: Nothing can be written to the folder now, so that nothing can be checked.
    """
    mount = find_mount(root)
    record = _read(root / RECORD)
    if record and mount.identity in record.mounts:
        return
    with tempfile.TemporaryDirectory(prefix="storage-check-", dir=root / ".trash") as name:
        _check_mount(root, mount)
        for what, holds in ASSUMPTIONS.items():
            _try_out(root, mount, what, holds, Path(name))
        hard_links = _links(Path(name))
    if not hard_links:
        log.warning(
            "store %s: no hard links on %s; what is taken over from earlier datasets is copied", root, mount.kind
        )
    known = record.mounts if record else ()
    write_record(root / RECORD, StorageRecord(mounts=(*known, mount.identity), hard_links=hard_links))


def find_mount(folder: Path, mounts: Path = MOUNTS) -> Mount:
    """Returns the file system of a folder; without the kernel's list (not on Linux), only its device number."""
    folder = folder.resolve()
    found: dict[Path, Mount] = {}
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        own, _, shared = line.partition(" - ")
        point = Path(re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), own.split()[4]))
        if folder.is_relative_to(point):
            kind, source, options = shared.split()[:3]
            found[point] = Mount(kind, source, tuple(options.split(",")))
    if not found:
        return Mount("unknown", str(folder.stat().st_dev), ())
    return found[max(found, key=lambda point: len(point.parts))]


def _read(path: Path) -> StorageRecord | None:
    try:
        return read_record(path, StorageRecord, "delete it")
    except StoreError:
        return None


def _check_mount(root: Path, mount: Mount) -> None:
    local = [option for option in LOCKS_OF_ONE_MACHINE.get(mount.kind, ()) if option in mount.options]
    if local:
        raise _refusal(root, mount, f"locks are not seen by other machines (mount option {local[0]})")
    if mount.kind in NO_FILE_SYSTEMS:
        raise _refusal(root, mount, "it has neither atomic renames nor locks that other machines see")


def _try_out(root: Path, mount: Mount, what: str, holds: Callable[[Path], bool], folder: Path) -> None:
    try:
        held, why = holds(folder), ""
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        held, why = False, f" ({error.strerror})"
    if not held:
        raise _refusal(root, mount, f"{what}{why}")


def _refusal(root: Path, mount: Mount, what: str) -> StoreError:
    return StoreError(
        f"store {root}: its file system ({mount.kind}, {mount.source}) is not fit for a store: {what}; "
        "take a local disk, or shared storage with POSIX renames and locks (docs/how-to/install.md, shared storage)"
    )


def _replaces(folder: Path) -> bool:
    old, new = folder / "old", folder / "new"
    old.write_text("old")
    new.write_text("new")
    new.replace(old)
    return old.read_text() == "new" and not new.exists()


def _moves_folders(folder: Path) -> bool:
    source, target = folder / "staged" / "dataset", folder / "published"
    source.mkdir(parents=True)
    target.mkdir()
    (source / "part").write_text("rows")
    source.rename(target / "dataset")
    return (target / "dataset" / "part").read_text() == "rows" and not source.exists()


def _excludes(folder: Path) -> bool:
    path = folder / "lock"
    with path.open("w") as first:
        fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with path.open("w") as second:
            try:
                fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pass
            else:
                return False
    with path.open("w") as third:
        fcntl.flock(third, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return True


def _syncs(folder: Path) -> bool:
    path = folder / "synced"
    path.write_text("rows")
    for each in (path, folder):
        fsync_path(each)
    return True


def _links(folder: Path) -> bool:
    path = folder / "original"
    path.write_text("rows")
    try:
        (folder / "link").hardlink_to(path)
    except OSError:
        return False
    return (folder / "link").samefile(path)


ASSUMPTIONS: dict[str, Callable[[Path], bool]] = {
    "a rename does not replace a file": _replaces,
    "a folder cannot be renamed": _moves_folders,
    "flock does not keep two builders apart": _excludes,
    "fsync does not work": _syncs,
}
"""The checks by their error message; each runs in an empty folder."""
