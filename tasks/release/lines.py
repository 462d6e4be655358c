"""Reads one release file as JSON objects, line by line: gzip or plain, in bounded memory, with a place for every line.

What belongs here: bytes to lines to objects. What does not: what the objects mean (`decode`, `s2orc`).
"""

from collections.abc import Iterator
from gzip import BadGzipFile
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from isal import igzip, igzip_lib

from schemas.errors import BadInput, ReleaseError

LINE_LIMIT = 32 * 1024 * 1024
"""Longest line that is read, in bytes; a longer one is passed over while streaming."""

CHUNK = 1024 * 1024
GZIP_MAGIC = b"\x1f\x8b"
EXCERPT = 200


class Line(NamedTuple):
    """One line: number from 1, where it starts in the decompressed file, length in bytes without its line break.

    `data` is the whole line when `length` is within the limit, else its beginning.
    """

    number: int
    offset: int
    length: int
    data: bytes

    @property
    def excerpt(self) -> str:
        """The first 200 characters, undecodable bytes replaced."""
        return self.data[: 4 * EXCERPT].decode("utf-8", "replace")[:EXCERPT]


def read_lines(path: Path, limit: int = LINE_LIMIT) -> Iterator[Line]:
    """Yields the lines of a file that are not blank.

    Memory stays below `limit` and a few MiB, whatever the length of the file and of its lines.

    Args:
        path: gzip (one member or several) or plain, told apart by the first two bytes.
        limit: Longest line to keep, in bytes.

    Raises:
        ReleaseError: The file cannot be opened, or its gzip data are truncated or damaged.
    """
    number, offset, tail, passed = 0, 0, b"", 0
    for chunk in _read_chunks(path):
        block = tail + chunk
        if passed:
            end = chunk.find(b"\n")
            if end < 0:
                passed += len(chunk)
                continue
            number += 1
            yield Line(number, offset, passed + end, tail)
            offset += passed + end + 1
            block, passed = chunk[end + 1 :], 0
        *complete, tail = block.split(b"\n")
        for data in complete:
            number += 1
            if data and not data.isspace():
                yield Line(number, offset, len(data), data)
            offset += len(data) + 1
        if len(tail) > limit:
            tail, passed = tail[: 4 * EXCERPT], len(tail)
    if tail and not tail.isspace():
        yield Line(number + 1, offset, passed or len(tail), tail)


def _read_chunks(path: Path) -> Iterator[bytes]:
    read = 0
    try:
        with path.open("rb") as raw:
            compressed = raw.read(2) == GZIP_MAGIC
            raw.seek(0)
            with igzip.IGzipFile(fileobj=raw, mode="rb") if compressed else raw as source:
                while chunk := source.read(CHUNK):
                    read += len(chunk)
                    yield chunk
    except (EOFError, BadGzipFile, igzip_lib.IsalError) as error:  # pyright: ignore[reportGeneralTypeIssues]
        raise ReleaseError(
            f"{path}: gzip data truncated or damaged after {read} decompressed bytes ({error}); fetch the file again"
        ) from error
    except OSError as error:
        raise ReleaseError(f"{path}: cannot be read after {read} decompressed bytes ({error.strerror})") from error


def parse_line(line: Line, limit: int = LINE_LIMIT) -> dict[str, Any]:
    """Returns a line's JSON object.

    Raises:
        BadInput: It holds none; the message is the reason in one word: `too_long`, `invalid_utf8`, `not_json`,
            `not_object`.
    """
    if line.length > limit:
        raise BadInput("too_long")
    try:
        value = orjson.loads(line.data)
    except orjson.JSONDecodeError as error:
        raise BadInput("not_json" if _is_utf8(line.data) else "invalid_utf8") from error
    if type(value) is not dict:
        raise BadInput("not_object")
    return value


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
