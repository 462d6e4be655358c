"""Turns the data set that the authors of ResearchArena publish into a release of a local mirror."""

import gzip
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson

from schemas.errors import BadInput, ReleaseError
from schemas.identifiers import DatasetName
from schemas.mindmap import parse_mindmap
from tasks.release.decode import Record
from tasks.release.lines import parse_line, read_lines

SMALL_WORDS = ("and", "of")

Emit = Callable[[DatasetName, Mapping[str, Any]], None]


def import_set(folder: Path, releases: Path, release: str) -> dict[str, int]:
    """Writes `survey.jsonl`, `public_*.jsonl` and `corpus_*.jsonl` as datasets of a release, line by line.

    The datasets are `papers`, `abstracts`, `citations` (a survey's references), `s2orc_v2` (a paragraph for each line
    of a text), `surveys` (ids, in place of a selector) and `mindmaps`. What a build makes of the release follows the
    same rules as for any other, so the relevance judgments are those references that the leakage rules leave.

    Args:
        folder: Folder of the published set.
        releases: Folder of the mirror.
        release: Name of the new release, a date.

    Returns:
        The number of lines of each dataset.

    Raises:
        ReleaseError: A file is missing or damaged, or the release exists.
        BadInput: A line has another form; the message names file and line.

    Source: sample records in the repository cxcscmu/ResearchArena.
    """
    target = releases / release
    if target.exists():
        raise ReleaseError(f"{target}: the release exists; choose another name, or delete the folder")
    publics = sorted(folder.glob("public_*.jsonl*"))
    surveys = sorted(folder.glob("survey.jsonl*"))
    if not publics or not surveys:
        lacking = "public_*.jsonl" if surveys else "survey.jsonl"
        raise ReleaseError(f"{folder}: holds no {lacking}; give the folder of the published set")
    draft = releases / f".{release}.import"
    known: set[int] = set()
    with _Writer(draft) as writer:
        for path in surveys:
            _each(path, lambda record: _survey(record, known, writer.emit))
        topics = frozenset(known)
        for path in publics:
            _each(path, lambda record: _public(record, topics, known, writer.emit))
        for path in sorted(folder.glob("corpus_*.jsonl*")):
            _each(path, lambda record: _text(record, writer.emit))
    draft.replace(target)
    return writer.lines


class _Writer:
    """Writes one gzip file for each dataset that gets a line, and those that a release must have."""

    def __init__(self, folder: Path) -> None:
        self.lines: dict[str, int] = {}
        self._folder, self._stack, self._files = folder, ExitStack(), dict[str, gzip.GzipFile]()

    def emit(self, dataset: DatasetName, record: Mapping[str, Any]) -> None:
        """Writes a record of a dataset."""
        if dataset not in self._files:
            path = self._folder / dataset / "part-000.jsonl.gz"
            path.parent.mkdir(parents=True, exist_ok=True)
            self._files[dataset] = self._stack.enter_context(gzip.GzipFile(path, "wb", compresslevel=3, mtime=0))
        self._files[dataset].write(orjson.dumps(record) + b"\n")
        self.lines[dataset] = self.lines.get(dataset, 0) + 1

    def __enter__(self) -> "_Writer":
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()


def _each(path: Path, read: Callable[[Record], None]) -> None:
    for line in read_lines(path):
        try:
            read(parse_line(line))
        except (BadInput, KeyError, TypeError, ValueError) as error:
            raise BadInput(
                f"{path}, line {line.number}: is no record of this set ({error!r:.200}); "
                f"it begins {line.excerpt[:80]!r}"
            ) from error


def _survey(record: Record, known: set[int], emit: Emit) -> None:
    survey = _id(record["id"])
    _paper(record, emit)
    known.add(survey)
    emit("surveys", {"corpusid": survey, "title": record["title"]})
    for kind in ("influential", "relevant"):
        for cited in record["references"][kind]:
            edge = {"citingcorpusid": survey, "citedcorpusid": _id(cited), "isinfluential": kind == "influential"}
            emit("citations", edge)
    if record.get("typology"):
        emit("mindmaps", {"corpusid": survey, "tree": parse_mindmap(record["typology"])})


def _public(record: Record, topics: frozenset[int], known: set[int], emit: Emit) -> None:
    paper = _id(record["id"])
    if paper not in topics:
        _paper(record, emit)
    if record.get("survey") and paper not in known:
        known.add(paper)
        emit("surveys", {"corpusid": paper, "title": record["title"]})


def _paper(record: Record, emit: Emit) -> None:
    paper = _id(record["id"])
    count = record.get("referenceCount")
    emit(
        "papers",
        {
            "corpusid": paper,
            "title": record["title"],
            "publicationdate": record.get("publicationDate"),
            "referencecount": None if count is None else int(count),
            "s2fieldsofstudy": [{"category": _field(s), "source": "external"} for s in record.get("subjects") or ()],
            "url": record.get("semanticSource"),
        },
    )
    emit("abstracts", {"corpusid": paper, "abstract": record.get("abstract")})


def _text(record: Record, emit: Emit) -> None:
    text = str(record["text"])
    spans = json.dumps(list(_spans(text)))
    body = {"text": text, "annotations": {"paragraph": spans}}
    emit("s2orc_v2", {"corpusid": _id(record["id"]), "body": body})


def _spans(text: str) -> Iterator[dict[str, int]]:
    """Yields the place of every line of a text that is not blank."""
    start = 0
    for line in text.split("\n"):
        if line.strip():
            yield {"start": start, "end": start + len(line)}
        start += len(line) + 1


def _field(slug: str) -> str:
    words = slug.split("-")
    return " ".join(word if word in SMALL_WORDS else word.capitalize() for word in words)


def _id(value: object) -> int:
    return int(str(value))
