"""Lines of release files: every byte accounted for, whatever is in them."""

import gzip
import re
import tracemalloc
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import BadInput, ReleaseError
from tasks.release.lines import LINE_LIMIT, Line, parse_line, read_lines

NEWLINE = b"\n"


def write(path: Path, data: bytes, members: int = 1) -> Path:
    """A gzip file of one member or several."""
    step = len(data) // members + 1
    path.write_bytes(b"".join(gzip.compress(data[i : i + step]) for i in range(0, max(1, len(data)), step)))
    return path


@settings(deadline=None, max_examples=50)
@given(
    parts=st.lists(st.binary(max_size=40).map(lambda part: part.replace(b"\n", b"")), max_size=12),
    ends_with_break=st.booleans(),
    members=st.integers(1, 3),
    limit=st.integers(1, 30),
)
def test_every_line_is_found_where_it_stands(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], ends_with_break: bool, members: int, limit: int
) -> None:
    data = b"\n".join(parts) + b"\n" * ends_with_break
    folder = tmp_path_factory.mktemp("lines")
    plain = folder / "plain"
    plain.write_bytes(data)
    for path in (write(folder / "packed", data, members), *([] if data.startswith(b"\x1f\x8b") else [plain])):
        found = list(read_lines(path, limit))
        shown = [n for n, part in enumerate(parts, 1) if len(part) > limit or part.strip(b" \t\r\v\f")]
        assert [line.number for line in found] == shown
        for line in found:
            whole = data[line.offset : line.offset + line.length]
            assert whole == parts[line.number - 1]
            assert line.data.rstrip(b"\n") == whole if line.length <= limit else whole.startswith(line.data)


def test_a_line_over_the_limit_is_passed_over_while_streaming(tmp_path: Path) -> None:
    path = write(tmp_path / "long.gz", b'{"corpusid": 1}\n' + b"x" * 50_000_000 + b'\n{"corpusid": 2}\n')
    tracemalloc.start()
    found = list(read_lines(path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    places = [(line.number, line.offset, line.length) for line in found]
    assert places == [(1, 0, 15), (2, 16, 50_000_000), (3, 50_000_017, 15)]
    with pytest.raises(BadInput, match=r"^too_long$"):
        parse_line(found[1])
    assert found[1].excerpt == "x" * 200
    assert peak < 2 * LINE_LIMIT + 16 * 1024 * 1024


@pytest.mark.parametrize("keep", [0.999, 0.5, 0.01])
def test_truncated_gzip_names_the_file_and_the_place(tmp_path: Path, keep: float) -> None:
    data = b"".join(b'{"corpusid": %d}\n' % (7919 * n % 104729) for n in range(100_000))
    path = write(tmp_path / "cut.gz", data)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * keep)])
    with pytest.raises(ReleaseError) as error:
        list(read_lines(path))
    good = zlib.decompressobj(31).decompress(path.read_bytes())
    assert data.startswith(good)
    where = f"{len(good)} decompressed bytes, in line {good.count(NEWLINE) + 1} ("
    assert str(error.value).startswith(f"{path}: gzip data truncated or damaged after {where}")


@pytest.mark.parametrize("place", [-8, -4, 1000, 60_000])
@pytest.mark.parametrize("members", [1, 3])
def test_damaged_gzip_is_an_error_at_its_place(tmp_path: Path, place: int, members: int) -> None:
    data = b"".join(b'{"corpusid": %d}\n' % (n * n) for n in range(20_000))
    path = write(tmp_path / "bad.gz", data, members)
    damaged = bytearray(path.read_bytes())
    damaged[place] ^= 0xFF
    path.write_bytes(damaged)
    with pytest.raises(ReleaseError, match=r"bad\.gz: gzip data truncated or damaged") as error:
        list(read_lines(path))
    told = re.search(r"after (\d+) decompressed bytes, in line (\d+)", str(error.value))
    assert told
    before = data if place < 0 else zlib.decompressobj(31).decompress(bytes(damaged[:place]))
    assert len(before) <= int(told[1]), "everything before the damage counts"
    assert before.count(NEWLINE) + 1 <= int(told[2])
    if place < 0:
        assert int(told[1]) == len(data), "only the sums at the end are wrong"


def test_an_absent_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match=r"gone\.gz: cannot be read"):
        list(read_lines(tmp_path / "gone.gz"))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"corpusid": 1', "not_json"),
        (b"<html>", "not_json"),
        (b'{"a": NaN}', "not_json"),
        (b"[" * 100_000, "not_json"),
        (b'{"title": "\xff"}', "invalid_utf8"),
        (b"\x00\x80binary", "invalid_utf8"),
        (b"[1, 2]", "not_object"),
        (b'"text"', "not_object"),
        (b"null", "not_object"),
    ],
)
def test_unusable_lines_have_a_reason(data: bytes, reason: str) -> None:
    with pytest.raises(BadInput, match=f"^{reason}$"):
        parse_line(Line(1, 0, len(data), data))


def test_a_usable_line_is_its_object() -> None:
    data = '{"corpusid": 1, "title": "Größe 測 😀"}\r\n'.encode()
    assert parse_line(Line(1, 0, len(data), data)) == {"corpusid": 1, "title": "Größe 測 😀"}
