"""Disks that are read-only or full: what only reads works, the rest ends on one line that says what to do."""

import ctypes
import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.errors import StoreError
from tasks.store.storage_check import RECORD
from tasks.store.store import Store
from tests.flows.conftest import ONE, Arena

DAC_OVERRIDE = 1 << 1
"""The capability by which root writes where the mode forbids it."""


class _Sets(ctypes.Structure):
    _fields_ = [("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32)]


def set_override(on: bool) -> None:
    """Switches root's right to write anywhere; does nothing for other users, and for a root without that right."""
    libc, header, sets = ctypes.CDLL(None), (ctypes.c_uint32 * 2)(0x20080522, 0), (_Sets * 2)()
    assert libc.capget(header, sets) == 0
    if sets[0].permitted & DAC_OVERRIDE:
        sets[0].effective = sets[0].effective | DAC_OVERRIDE if on else sets[0].effective & ~DAC_OVERRIDE
        assert libc.capset(header, sets) == 0


@pytest.fixture
def read_only(arena: Arena) -> Iterator[Path]:
    """The store of `arena`, never opened on this machine before, without the right to write to it."""
    root = arena.folder / "store"
    for left in (root / RECORD, root / ".settings.json"):
        left.unlink(missing_ok=True)
    shutil.rmtree(root / ".opened", ignore_errors=True)
    shutil.rmtree(root / ".verified")
    (root / ".trash" / "old").mkdir()
    os.utime(root / ".trash" / "old", (0, 0))
    folders = [root, *(path for path in root.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    set_override(False)
    try:
        yield root
    finally:
        set_override(True)
        for folder in folders:
            folder.chmod(0o755)


@pytest.mark.parametrize(
    "tokens",
    [
        ("status",),
        ("edition", "list"),
        ("edition", "show", "2026-01-06"),
        ("edition", "verify", "2026-01-06"),
        ("gc",),
        ("search", "graph", "--retriever", "bm25"),
        ("export", "--to", "TO"),
    ],
    ids=lambda tokens: " ".join(tokens[:2]),
)
def test_what_only_reads_works_on_a_read_only_store(arena: Arena, read_only: Path, tokens: tuple[str, ...]) -> None:
    before = sorted(read_only.rglob("*"))
    code, out, err = arena(*(arena.folder / "out" if token == "TO" else token for token in tokens))
    assert (code, err) == (0, "")
    assert out
    assert sorted(read_only.rglob("*")) == before


@pytest.mark.parametrize(
    "tokens",
    [
        ("build", "--release", "2026-01-06", *ONE),
        ("run", "discovery", "--baselines", "title", "--retrievers", "bm25", *ONE),
        ("report",),
        ("edition", "publish", "2026-01-06"),
        ("gc", "--delete"),
    ],
    ids=lambda tokens: tokens[0],
)
def test_what_writes_names_the_read_only_store(arena: Arena, read_only: Path, tokens: tuple[str, ...]) -> None:
    code, _, err = arena(*tokens)
    assert code == 1
    assert err.startswith(f"arena: {read_only}")
    assert err.endswith(": Permission denied; choose another path, or get the right to use this one\n")


@pytest.mark.parametrize(
    ("tokens", "file"),
    [(("export",), "topics.tsv"), (("audit", "surveys"), "audit-surveys-2026-01-06.html")],
    ids=["export", "audit"],
)
def test_a_full_disk_is_named_with_the_remedy(arena: Arena, tokens: tuple[str, ...], file: str) -> None:
    to = arena.folder / "out"
    to.mkdir()
    (to / file).symlink_to("/dev/full")
    assert arena(*tokens, "--to", to) == (
        1,
        "",
        f"arena: {to}: No space left on device; free some space and run the same command again: "
        "what is finished is kept\n",
    )


@pytest.mark.parametrize(
    ("variable", "tokens", "says"),
    [
        ("ARENA_RELEASES", ("build", "--release", "2026-01-06"), "release '2026-01-06' is not in FILE"),
        ("ARENA_ROOT", ("build", "--release", "2026-01-06"), "FILE/fingerprints.json: Not a directory; a file or fol"),
        ("ARENA_ROOT", ("status",), "store FILE: cannot be written (File exists); choose another --root"),
        (None, ("export", "--to", "FILE"), "FILE: File exists; a file or folder of that path is in the way: choose"),
        (None, ("export", "--to", "FILE/in"), "FILE/in: Not a directory; a file or folder of that path is in the way"),
    ],
)
def test_a_file_in_the_place_of_a_folder_is_named(
    arena: Arena, monkeypatch: pytest.MonkeyPatch, variable: str | None, tokens: tuple[str, ...], says: str
) -> None:
    file = arena.folder / "file"
    file.touch()
    if variable:
        monkeypatch.setenv(variable, str(file))
    code, _, err = arena(*(token.replace("FILE", str(file)) for token in tokens))
    assert code == 1
    assert err.startswith(f"arena: {says.replace('FILE', str(file))}")
    assert "--debug" not in err


@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOSPC, errno.EDQUOT])
def test_a_store_opens_where_nothing_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int):
    Store(tmp_path / "old")
    (tmp_path / "old" / RECORD).unlink()

    def refuse(path: str, *args: object, **others: object) -> None:
        raise OSError(number, os.strerror(number), path) if not Path(path).exists() else FileExistsError(path)

    monkeypatch.setattr(os, "mkdir", refuse)
    assert Store(tmp_path / "old").published("topics") == ()
    with pytest.raises(StoreError, match=r"new: cannot be written .*; choose another --root"):
        Store(tmp_path / "new")


def test_a_folder_in_the_place_of_an_edition_is_named(arena: Arena) -> None:
    (arena.folder / "store" / "editions" / "x.json").mkdir()
    code, _, err = arena("edition", "show", "x")
    assert code == 1
    assert err == f"arena: {arena.folder}/store/editions/x.json: is a folder, and an edition is a file; move it away\n"
    assert [row["edition"] for row in arena.json("edition", "list")] == ["2026-01-06"]
