"""Reads mind-maps that people transcribed, from files of JSON lines."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from schemas.errors import BadInput, ReleaseError
from schemas.identifiers import ReleaseId
from schemas.mindmap import Tree, load_any
from schemas.release import ReleaseDataset, SourceFile
from tasks.release.decode import read_optional_id, read_text
from tasks.release.lines import Line, parse_line, read_lines
from tasks.store.dataset import sha256_file


class Place(NamedTuple):
    """Where a map stands: file, and line of it; a row of the table `quarantine` but for the reason."""

    file: str
    line: int
    byte_offset: int
    excerpt: str


class Transcript(NamedTuple):
    """A map as it was transcribed, and what is said of it; the survey is named by id or else by title."""

    tree: Tree
    corpus_id: int | None
    survey_title: str | None
    figure: str | None
    caption: str | None


def open_maps(path: Path, release: str) -> ReleaseDataset:
    """Returns a file of mind-maps as an input of stage `mindmaps`: its content enters the key, its place does not.

    Args:
        path: JSON lines, plain or gzip.
        release: The release that the maps are used with.

    Raises:
        ReleaseError: There is no such file, or it is empty.
    """
    if not path.is_file() or not path.stat().st_size:
        raise ReleaseError(f"{path}: no file of mind-maps, or an empty one; give a file of JSON lines")
    source = SourceFile(name=path.name, size=path.stat().st_size, sha256=sha256_file(path))
    return ReleaseDataset(release=ReleaseId(release), dataset="mindmaps", directory=path.parent, files=(source,))


def read_transcripts(maps: ReleaseDataset) -> Iterator[tuple[Place, Transcript | str]]:
    """Yields every line's map, or the reason in one word why it holds none: `no_tree`, `bad_tree`, `not_json`, ...

    A line is `{"corpusid": int or null, "tree": map or null}`, and may hold `survey_title`, `file` (the picture's) and
    `caption`. The map has one of the forms that `load_any` takes.

    Raises:
        ReleaseError: A file cannot be read.
    """
    for source in sorted(maps.files, key=lambda source: source.name):
        for line in read_lines(maps.directory / source.name):
            yield Place(source.name, line.number, line.offset, line.excerpt), _read(line)


def _read(line: Line) -> Transcript | str:
    try:
        record = parse_line(line)
        return _transcript(record)
    except BadInput as error:
        return str(error)


def _transcript(record: Mapping[str, Any]) -> Transcript:
    members = dict(record)
    about = (
        read_optional_id(members, "corpusid"),
        *(read_text(members, field) for field in ("survey_title", "file", "caption")),
    )
    if record.get("tree") is None:
        raise BadInput("no_tree")
    try:
        return Transcript(load_any(record["tree"]), *about)
    except BadInput as error:
        raise BadInput("bad_tree") from error
