"""File systems on which a store would not be safe are refused with the reason, and asked once only."""

import errno
import fcntl
import os
from pathlib import Path

import pytest

from schemas.errors import StoreError
from tasks.store import storage_check
from tasks.store.storage_check import RECORD, find_mount
from tasks.store.store import Store

SERVER = "36 29 0:51 / {point} rw,relatime shared:12 - {kind} server:/export rw,vers=4.2,{options}\n"
ROOT = "29 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard\n"


@pytest.fixture
def mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Says that the test's folder lies on a mount of that kind with these options."""

    def mount(kind: str, options: str) -> None:
        table = tmp_path / "mountinfo"
        table.write_text(ROOT + SERVER.format(point=tmp_path.resolve(), kind=kind, options=options))
        monkeypatch.setattr(storage_check, "find_mount", lambda folder: find_mount(folder, table))

    return mount


def forget_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "flock", lambda handle, operation: None)


def refuse(monkeypatch: pytest.MonkeyPatch, target: object, name: str, number: int) -> None:
    def fail(*args: object, **others: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(target, name, fail)


def test_this_machines_disk_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Store(tmp_path / "store")
    assert not list((tmp_path / "store" / ".trash").iterdir())
    forget_locks(monkeypatch)
    Store(tmp_path / "store")
    with pytest.raises(StoreError, match="flock does not keep two builders apart"):
        Store(tmp_path / "other")


def test_what_does_not_hold_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for target, name, number, said in (
        (fcntl, "flock", errno.ENOSYS, "flock.*Function not implemented"),
        (os, "fsync", errno.EINVAL, "fsync does not work.*Invalid argument"),
    ):
        with monkeypatch.context() as broken:
            refuse(broken, target, name, number)
            with pytest.raises(StoreError, match=said):
                Store(tmp_path / name)
        assert not (tmp_path / name / RECORD).exists()
        Store(tmp_path / name)


def test_without_hard_links_a_store_still_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, os, "link", errno.EPERM)
    root = Store(tmp_path / "store").root
    assert '"hard_links": false' in (root / RECORD).read_text()


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        ("nfs4", "local_lock=none", None),
        ("nfs", "nolock,local_lock=all", "not seen by other machines .mount option nolock"),
        ("nfs4", "local_lock=flock", "local_lock=flock"),
        ("lustre", "localflock", "localflock"),
        ("fuse.gcsfuse", "allow_other", "neither atomic renames nor locks"),
    ],
)
def test_locks_of_one_machine_are_refused(tmp_path: Path, mounted, kind: str, options: str, said: str | None) -> None:
    mounted(kind, options)
    if said is None:
        Store(tmp_path / "store")
        return
    with pytest.raises(StoreError, match=said):
        Store(tmp_path / "store")


def test_another_file_system_under_the_same_folder_is_asked_again(tmp_path: Path, mounted) -> None:
    mounted("nfs4", "local_lock=none")
    Store(tmp_path / "store")
    mounted("nfs4", "nolock")
    with pytest.raises(StoreError, match="nolock"):
        Store(tmp_path / "store")


def test_the_nearest_mount_counts(tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(ROOT + SERVER.format(point=r"/mnt/the\040store", kind="nfs4", options="hard"))
    assert find_mount(Path("/mnt/the store/root"), table).kind == "nfs4"
    assert find_mount(Path("/mnt/the"), table).identity == "ext4 /dev/vda rw,discard"
