"""Reads one release file as JSON lines: gzip or plain, in bounded memory, with the position of every line."""

import io
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from gzip import BadGzipFile
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from isal import igzip, igzip_lib

from schemas.errors import BadInput, ReleaseError
from schemas.json import JsonObject

LINE_LIMIT = 32 * 1024 * 1024
"""Longest line that is read, in bytes, unless a setting says otherwise; longer lines are skipped while streaming."""

PARSE_LIMIT = 4 * 1024 * 1024
"""Longest JSON text that becomes Python objects whatever it holds, in bytes: they take up to 30 times its room."""

CHUNK = 1024 * 1024
SMALL = 16 * 1024
"""Bytes of a damaged file that are unpacked at a time."""

GZIP = zlib.MAX_WBITS | 16
GZIP_MAGIC = b"\x1f\x8b"
EXCERPT = 200


class Line(NamedTuple):
    """One line: its number from 1, its offset in the decompressed file, its length in bytes without the line break.

    `data` is the whole line without its break when `length` is within the limit, else its beginning.
    """

    number: int
    offset: int
    length: int
    data: bytes

    @property
    def excerpt(self) -> str:
        """The first 200 characters, undecodable bytes replaced."""
        return self.data[: min(self.length, 4 * EXCERPT)].decode("utf-8", "replace")[:EXCERPT]


class Block(NamedTuple):
    """Whole lines of a file: the number of the first, its offset, and all bytes, the last break perhaps missing."""

    number: int
    offset: int
    data: bytes

    def lines(self, limit: int) -> Iterator[Line]:
        """Yields the lines that are not blank; those over `limit` bytes without most of their data."""
        offset = self.offset
        for number, piece in enumerate(self.data.split(b"\n"), self.number):
            if len(piece) > limit:
                yield Line(number, offset, len(piece), piece[: 4 * EXCERPT])
            elif piece and not piece.isspace():
                yield Line(number, offset, len(piece), piece)
            offset += len(piece) + 1

    def halves(self) -> tuple["Block", "Block"] | None:
        """Returns two blocks with about half of the bytes each; None when this is one line."""
        middle = len(self.data) // 2
        place = self.data.rfind(b"\n", 0, middle) + 1 or self.data.find(b"\n", middle) + 1
        if place in (0, len(self.data)):
            return None
        first, second = self.data[:place], self.data[place:]
        return Block(self.number, self.offset, first), Block(
            self.number + first.count(b"\n"), self.offset + place, second
        )


def read_lines(path: Path, limit: int = LINE_LIMIT) -> Iterator[Line]:
    """Yields the lines of a file that are not blank; arguments, memory and errors as for `read_blocks`."""
    for block in read_blocks(path, limit):
        if isinstance(block, Line):
            yield block
        else:
            yield from block.lines(limit)


def read_blocks(path: Path, limit: int = LINE_LIMIT) -> Iterator[Block | Line]:
    """Yields a file as blocks of whole lines, about 1 MiB each; a Line in between is longer than `limit`.

    Memory stays below twice `limit` plus a few MiB, however long the file and its lines are.

    Args:
        path: gzip (one member or several) or plain; the first two bytes decide.
        limit: Longest line to keep, in bytes.

    Raises:
        ReleaseError: The file cannot be opened, or its gzip data are truncated or damaged.
    """
    number, offset = 1, 0
    try:
        with _open(path) as source:
            while data := source.read(CHUNK):
                long, begin = 0, b""
                if not data.endswith(b"\n"):
                    data += source.readline(limit + 1)
                    start = data.rfind(b"\n") + 1
                    if len(data) - start > limit:
                        long, begin = len(data) - start + _skip_line(source), data[start : start + 4 * EXCERPT]
                        data = data[:start]
                if data:
                    yield Block(number, offset, data)
                number, offset = number + data.count(b"\n"), offset + len(data)
                if long:
                    yield Line(number, offset, long, begin)
                    number, offset = number + 1, offset + long + 1
    except (EOFError, BadGzipFile, igzip_lib.IsalError) as error:  # pyright: ignore[reportGeneralTypeIssues]
        whole, breaks = _measure_whole(path)
        raise ReleaseError(
            f"{path}: gzip data truncated or damaged after {whole} decompressed bytes, in line {breaks + 1} "
            f"({error}); fetch the file again"
        ) from error
    except OSError as error:
        raise ReleaseError(f"{path}: cannot be read after {offset} decompressed bytes ({error.strerror})") from error


@contextmanager
def _open(path: Path) -> Generator[io.BufferedReader]:
    with path.open("rb", buffering=0) as raw:
        compressed = raw.read(2) == GZIP_MAGIC
        raw.seek(0)
        stream: Any = igzip.IGzipFile(fileobj=raw, mode="rb") if compressed else raw
        with io.BufferedReader(stream, CHUNK) as source:
            yield source


def _measure_whole(path: Path) -> tuple[int, int]:
    """Returns how many bytes and line breaks of a damaged gzip file can be unpacked before the damage."""
    whole = breaks = 0
    unpacker = zlib.decompressobj(GZIP)
    with path.open("rb") as raw, suppress(zlib.error):
        while piece := raw.read(SMALL):
            before = unpacker.copy()
            try:
                pieces = [_unpack(unpacker, piece)]
            except zlib.error:
                pieces = _unpack_each(before, piece)
            for unpacker, data in pieces:  # noqa: B007
                whole, breaks = whole + len(data), breaks + data.count(b"\n")
    return whole, breaks


def _unpack_each(unpacker: Any, packed: bytes) -> Iterator[tuple[Any, bytes]]:
    """Yields what each byte of a damaged piece unpacks to; raises zlib.error at the damage."""
    for place in range(len(packed)):
        unpacker, data = _unpack(unpacker, packed[place : place + 1])
        yield unpacker, data


def _unpack(unpacker: Any, packed: bytes) -> tuple[Any, bytes]:
    """Returns what a piece of a gzip file unpacks to, with the unpacker for the next piece."""
    data = b""
    while packed:
        if unpacker.eof:
            unpacker, packed = zlib.decompressobj(GZIP), packed.lstrip(b"\0")
        data += unpacker.decompress(packed)
        packed = unpacker.unused_data
    return unpacker, data


def _skip_line(source: io.BufferedReader) -> int:
    """Skips to the next line break and returns the number of bytes before it."""
    length = 0
    while (data := source.readline(CHUNK)) and not data.endswith(b"\n"):
        length += len(data)
    return length + len(data.removesuffix(b"\n"))


def parse_line(line: Line, limit: int = PARSE_LIMIT) -> JsonObject:
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
