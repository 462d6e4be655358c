"""Whether a fetched file is whole."""

import hashlib
import io
from gzip import BadGzipFile
from pathlib import Path
from typing import Any

from isal import igzip, igzip_lib

from schemas.errors import ReleaseError
from tasks.release.lines import CHUNK


class _Hashing(io.RawIOBase):
    """A file that is hashed while it is read."""

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
    """Size and sha256 of a gzip file, every member of which was decompressed and agrees with its checksum.

    Raises:
        ReleaseError: It is truncated, damaged or no gzip.
    """
    with path.open("rb", buffering=0) as raw:
        hashing = _Hashing(raw)
        try:
            with igzip.IGzipFile(fileobj=hashing, mode="rb") as content:
                buffer = bytearray(CHUNK)
                while content.readinto(buffer):
                    pass
        except (EOFError, BadGzipFile, igzip_lib.IsalError) as error:  # pyright: ignore[reportGeneralTypeIssues]
            raise ReleaseError(f"{path}: gzip data truncated or damaged ({error})") from error
        if not hashing.size:
            raise ReleaseError(f"{path}: is empty, a gzip file never is")
        return hashing.size, hashing.sha256.hexdigest()
