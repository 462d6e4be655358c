"""Checks that a fetched file is complete."""

import hashlib
import io
from gzip import BadGzipFile
from pathlib import Path
from typing import Any

from isal import igzip, igzip_lib

from schemas.errors import ReleaseError
from tasks.http.stop import check_stop
from tasks.release.lines import CHUNK


class _Hashing(io.RawIOBase):
    """Hashes a file while it is read."""

    def __init__(self, source: io.FileIO) -> None:
        super().__init__()
        self._source, self.sha256, self.size = source, hashlib.sha256(), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        length = self._source.readinto(buffer) or 0
        self.sha256.update(memoryview(buffer)[:length])
        self.size += length
        return length


def check_gzip(path: Path) -> tuple[int, str]:
    """Decompresses a gzip file to check it, and returns its size and sha256.

    Raises:
        ReleaseError: It is truncated, damaged or not gzip.
    """
    with path.open("rb", buffering=0) as raw:
        hashing = _Hashing(raw)
        try:
            with igzip.IGzipFile(fileobj=hashing, mode="rb") as content:
                buffer = bytearray(CHUNK)
                while content.readinto(buffer):
                    check_stop()
        except (EOFError, BadGzipFile, igzip_lib.IsalError) as error:  # pyright: ignore[reportGeneralTypeIssues]
            raise ReleaseError(f"{path}: gzip data truncated or damaged ({error})") from error
        if not hashing.size:
            raise ReleaseError(f"{path}: is empty, expected a gzip file; fetch it again")
        return hashing.size, hashing.sha256.hexdigest()
