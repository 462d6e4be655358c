"""Reads mind-maps that people transcribed from figures, one JSON line each."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from schemas.errors import BadInput, ReleaseError
from schemas.identifiers import ReleaseId
from schemas.mindmap import Tree, load_any
from schemas.release import ReleaseDataset, SourceFile
from tasks.release.decode import Record, read_optional_id, read_text
from tasks.release.lines import Line, parse_line, read_lines
from tasks.store.dataset import sha256_file


class Place(NamedTuple):
    """The line that holds a map; a row of the table `quarantine` without the reason."""

    file: str
    line: int
    byte_offset: int
    excerpt: str


class Transcript(NamedTuple):
    """A transcribed map with its survey and figure; the survey is given by id, or else by title."""

    tree: Tree
    corpus_id: int | None
    survey_title: str | None
    figure: str | None
    caption: str | None


def open_maps(path: Path, release: str) -> ReleaseDataset:
    """Returns a file of mind-maps as an input of stage `mindmaps`; the key depends on its content, not on its folder.

    Args:
        path: JSON lines, plain or gzip.
        release: The release with which the maps are used.

    Raises:
        ReleaseError: The file does not exist or is empty.
    """
    if not path.is_file() or not path.stat().st_size:
        raise ReleaseError(f"{path}: the file of mind-maps does not exist or is empty; give a file of JSON lines")
    source = SourceFile(name=path.name, size=path.stat().st_size, sha256=sha256_file(path))
    return ReleaseDataset(release=ReleaseId(release), dataset="mindmaps", directory=path.parent, files=(source,))


def read_transcripts(maps: ReleaseDataset) -> Iterator[tuple[Place, Transcript | str]]:
    """Yields the map of each line, or in one word the reason why it has none: `no_tree`, `bad_tree`, `not_json`, ...

    A line is `{"corpusid": int or null, "tree": map or null}`, optionally with `survey_title`, `file` (name of the
    picture) and `caption`. The map has one of the forms that `load_any` accepts.

    Raises:
        ReleaseError: A file cannot be read.
    """
    for source in sorted(maps.files, key=lambda source: source.name):
        for line in read_lines(maps.directory / source.name):
            yield Place(source.name, line.number, line.offset, line.excerpt), _read(line)


def _read(line: Line) -> Transcript | str:
    try:
        return _transcript(parse_line(line))
    except BadInput as error:
        return str(error)


def _transcript(record: Record) -> Transcript:
    source = (
        read_optional_id(record, "corpusid"),
        *(read_text(record, field) for field in ("survey_title", "file", "caption")),
    )
    if record.get("tree") is None:
        raise BadInput("no_tree")
    try:
        return Transcript(load_any(record["tree"]), *source)
    except BadInput as error:
        raise BadInput("bad_tree") from error
