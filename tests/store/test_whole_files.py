"""Small files are written whole by any number of processes at once, and records show a change of one bit."""

import errno
import multiprocessing
import os
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

from schemas.errors import StoreError
from tasks.release.mirror import hash_files
from tasks.store.whole_files import read_record, write_record, write_whole


class Note(BaseModel):
    model_config = ConfigDict(extra="forbid")

    number: int
    text: str


def write_many(path: Path, number: int) -> None:
    for _ in range(50):
        write_whole(path, str(number).encode() * 1000)


def hash_many(files: list[Path], fingerprints: Path, number: int) -> None:
    for _ in range(25):
        os.utime(files[number], ns=(os.getpid(), os.getpid() + number))
        hash_files(files, fingerprints)
        fingerprints.unlink(missing_ok=True)


def run_at_once(target: object, *arguments: object) -> list[int | None]:
    context = multiprocessing.get_context(
        "spawn"
    )  # a fork of a test process brings its threads' locks and its hooks along
    processes = [context.Process(target=target, args=(*arguments, number)) for number in range(4)]  # pyright: ignore
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    return [process.exitcode for process in processes]


def test_four_processes_write_one_file_at_once(tmp_path: Path) -> None:
    assert run_at_once(write_many, tmp_path / "note") == [0, 0, 0, 0]
    assert (tmp_path / "note").read_bytes() in {str(number).encode() * 1000 for number in range(4)}
    assert list(tmp_path.iterdir()) == [tmp_path / "note"]


def test_four_processes_share_a_cache_of_hashes(tmp_path: Path) -> None:
    files = [tmp_path / str(number) for number in range(4)]
    for path in files:
        path.write_text("content")
    assert run_at_once(hash_many, files, tmp_path / "fingerprints.json") == [0, 0, 0, 0]


def test_a_file_that_cannot_be_written_stays_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_whole(tmp_path / "note", b"old")

    def fail(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        write_whole(tmp_path / "note", b"new")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


def test_every_flipped_bit_of_a_record_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "note.json"
    write_record(path, note := Note(number=7, text="ab"))
    assert read_record(path, Note, "write it again") == note
    content = path.read_bytes()
    for bit in range(8 * len(content)):
        path.write_bytes(content[: bit // 8] + bytes([content[bit // 8] ^ 1 << bit % 8]) + content[bit // 8 + 1 :])
        with pytest.raises(StoreError, match=r"note\.json: is damaged \(.*; write it again$"):
            read_record(path, Note, "write it again")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the whole: Invalid JSON"),
        (b'{"number": "x", "text": "a"}', "number: Input should be a valid integer"),
        (b'{"number": 1, "text": "a", "seal": "0"}', "seal: Extra inputs"),
    ],
)
def test_a_damaged_record_is_named_with_place_and_remedy(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "note.json"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=rf"note\.json: is damaged \({said}.*\); write it again$"):
        read_record(path, Note, "write it again")
    path.unlink()
    with pytest.raises(StoreError, match=r"note\.json: cannot be read \(No such file or directory\); write it again"):
        read_record(path, Note, "write it again")
