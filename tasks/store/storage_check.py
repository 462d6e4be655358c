"""Whether a folder's file system keeps what the store relies on; asked once for each file system.

The assumptions: a rename replaces atomically and carries folders; `flock` keeps two builders apart, on all machines
that mount the folder; fsync works. Hard links are wanted, and done without where there are none.
"""

import fcntl
import logging
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from schemas.errors import StoreError

log = logging.getLogger(__name__)

RECORD = ".storage.json"
MOUNTS = Path("/proc/self/mountinfo")

LOCKS_OF_ONE_MACHINE = {
    "nfs": ("nolock", "local_lock=all", "local_lock=flock"),
    "nfs4": ("nolock", "local_lock=all", "local_lock=flock"),
    "lustre": ("localflock", "noflock"),
    "ceph": ("noflock",),
}
"""Mount options under which flock is kept from other machines, by kind of file system."""

NO_FILE_SYSTEMS = (
    "fuse.s3fs",
    "fuse.gcsfuse",
    "fuse.goofys",
    "fuse.geesefs",
    "fuse.rclone",
    "fuse.sshfs",
    "fuse.mount-s3",
)
"""Mounts of object stores and of SSH: their renames are copies, or their locks known to one machine only."""


class Mount(NamedTuple):
    """A file system as the kernel lists it."""

    kind: str
    source: str
    options: tuple[str, ...]

    @property
    def identity(self) -> str:
        """Tells it from any other that a folder may come to lie on; the same on all machines that mount it alike."""
        return f"{self.kind} {self.source} {','.join(self.options)}"


class StorageRecord(BaseModel):
    """What was found, kept in the folder itself.

    Attributes:
        mounts: Identities of the file systems that passed, as each machine sees the folder.
        hard_links: Whether files can be published again without a copy.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    mounts: tuple[str, ...]
    hard_links: bool


def check_storage(root: Path) -> None:
    """Refuses a folder whose file system does not keep the assumptions; cheap once it has passed.

    Args:
        root: Folder of the store, which exists and can be written.

    Raises:
        StoreError: An assumption does not hold; says which, and on what kind of file system.
    """
    mount = find_mount(root)
    record = _read(root / RECORD)
    if record and mount.identity in record.mounts:
        return
    _check_mount(root, mount)
    with tempfile.TemporaryDirectory(prefix="storage-check-", dir=root / ".trash") as name:
        for what, holds in ASSUMPTIONS.items():
            _try_out(root, mount, what, holds, Path(name))
        hard_links = _links(Path(name))
    if not hard_links:
        log.warning(
            "store %s: no hard links on %s; what is taken over from earlier datasets is copied", root, mount.kind
        )
    known = record.mounts if record else ()
    draft = root / f"{RECORD}.{os.getpid()}"
    draft.write_text(StorageRecord(mounts=(*known, mount.identity), hard_links=hard_links).model_dump_json(indent=1))
    draft.replace(root / RECORD)


def find_mount(folder: Path, mounts: Path = MOUNTS) -> Mount:
    """The file system that a folder lies on; where the kernel lists none (not Linux), its device number alone."""
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
        return StorageRecord.model_validate_json(path.read_bytes())
    except (FileNotFoundError, ValidationError):
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
        handle = os.open(each, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
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
"""Each tried out in an empty folder, by what is said where it does not hold."""
