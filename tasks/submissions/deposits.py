"""Runs from outside as they came, kept in the store: one file each, from which stages make datasets at any time."""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
from pydantic_core import from_json

from schemas.errors import StoreError
from schemas.identifiers import ReleaseId
from schemas.manifest import ReleaseEntry
from schemas.release import ReleaseDataset, SourceFile
from schemas.submission import Entry, Handed, Recorded, Sample, Submission, System
from schemas.tables.runs import SearchRow, StepRow
from tasks.store.dataset import Dataset
from tasks.store.hashes import sha256_file
from tasks.store.whole_files import write_whole

FOLDER = ".submitted"
"""Folder of a store with the runs from outside: `<edition>/<run>.jsonl`."""


LINE = orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE


def deposit(root: Path, edition: str, release: str, entry: Entry) -> ReleaseDataset:
    """Writes a run as a file of the store and returns it as an input of stages; equal runs give equal bytes.

    Args:
        root: Folder of the store.
        edition: Name of the edition.
        release: The edition's release.
        entry: The run.
    """
    folder = root / FOLDER / edition
    folder.mkdir(parents=True, exist_ok=True)
    content = b"".join(_lines(entry))
    write_whole(folder / _name(entry), content)
    return _describe(folder, release, entry, content)


def is_made_of(dataset: Dataset, entry: Entry) -> bool:
    """Returns whether a dataset was made of a run with this content."""
    source = dataset.manifest.inputs.get("submission")
    wanted = _describe(Path(), dataset.manifest.stage, entry, b"".join(_lines(entry)))
    return isinstance(source, ReleaseEntry) and source.digest == wanted.digest


def _name(entry: Entry) -> str:
    return f"{entry.system.run}.jsonl"


def _describe(folder: Path, release: str, entry: Entry, content: bytes) -> ReleaseDataset:
    source = SourceFile(name=_name(entry), size=len(content), sha256=sha256(content).hexdigest())
    return ReleaseDataset(release=ReleaseId(release), dataset="submission", directory=folder, files=(source,))


def read_deposit(deposited: ReleaseDataset) -> Entry:
    """Returns the run that `deposit` wrote.

    Raises:
        StoreError: The file is gone, or was changed since.
    """
    (source,) = deposited.files
    path = deposited.directory / source.name
    if not path.is_file() or sha256_file(path) != source.sha256:
        raise StoreError(f"{path}: is missing, or is not as it was handed in; hand the run in again: arena submit")
    with path.open("rb") as file:
        header = from_json(file.readline())
        topics = dict(map(_read_topic, map(from_json, file)))
    sample = Sample.model_validate(header["sample"]) if header["sample"] else None
    recorded = Recorded(**header["recorded"]) if "recorded" in header else None
    return Entry(System.model_validate(header["system"]), header["task"], topics, sample, recorded)


def _lines(entry: Entry) -> Iterator[bytes]:
    sample = entry.sample.model_dump() if entry.sample else None
    header = {"system": entry.system.model_dump(), "task": entry.task, "sample": sample}
    if entry.recorded:
        header["recorded"] = entry.recorded._asdict()
    yield orjson.dumps(header, option=LINE)
    for topic, handed in sorted(entry.topics.items()):
        submission = handed.submission.model_dump_json(exclude_unset=True).encode()
        line: dict[str, object] = {
            "topic": topic,
            "submission": orjson.Fragment(submission),
            "returned": sorted(set(handed.returned)),
            "searches": [list(search) for search in handed.searches],
        }
        if handed.steps:
            line["steps"] = [list(step) for step in handed.steps]
        yield orjson.dumps(line, option=LINE)


def _read_topic(line: Mapping[str, Any]) -> tuple[str, Handed]:
    submission, returned = Submission.model_validate(line["submission"]), tuple(line["returned"])
    searches = tuple(SearchRow(*search) for search in line["searches"])
    steps = tuple(StepRow(*step) for step in line.get("steps", ()))
    return line["topic"], Handed(submission, returned, searches, steps)
