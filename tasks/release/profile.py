"""Profiles a release's files: how many records they hold, which fields, and how often each is filled.

`sample_files` files of every dataset are read: all their lines are counted and the first `sample_records` of each are
parsed. Memory does not grow with the release.
"""

import hashlib
import logging
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

from schemas.errors import BadInput
from schemas.fetching import UpstreamDataset
from schemas.gate import DatasetProfile, FieldProfile, GateSettings, JsonType, ReleaseProfile
from schemas.identifiers import Digest, ReleaseId
from schemas.json import JsonObject
from tasks.release.fetched import read_manifest
from tasks.release.lines import parse_line, read_lines
from tasks.release.mirror import find_files

log = logging.getLogger(__name__)

UPSTREAM: tuple[UpstreamDataset, ...] = get_args(UpstreamDataset)
MOST_FIELDS = 500
"""Most fields that are counted; a dataset has far fewer unless it is damaged."""

TYPES: dict[type, JsonType] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
}


def profile_release(releases: Path, release: str, settings: GateSettings) -> ReleaseProfile:
    """Returns the profile of a release in the mirror.

    Raises:
        ReleaseError: A file cannot be read.
    """
    folder = releases / release
    found: dict[UpstreamDataset, list[Path]] = {name: files for name in UPSTREAM if (files := find_files(folder, name))}
    manifest = read_manifest(folder)
    kept = {name: dataset.kept for name, dataset in manifest.datasets.items()} if manifest else {}
    return ReleaseProfile(
        release=ReleaseId(release),
        source=name_source(releases, release, settings),
        datasets={name: profile_files(name, files, kept.get(name), settings) for name, files in found.items()},
    )


def name_source(releases: Path, release: str, settings: GateSettings) -> Digest:
    """Returns a digest of the state of a release's files and of how many are sampled."""
    seen = [f"{settings.sample_files} {settings.sample_records}"]
    for dataset in UPSTREAM:
        for path in find_files(releases / release, dataset):
            stat = path.stat()
            state = (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)
            seen.append(f"{dataset} {path.name} {state}")
    return Digest(hashlib.sha256("\n".join(seen).encode()).hexdigest())


def profile_files(name: UpstreamDataset, files: list[Path], kept: str | None, settings: GateSettings) -> DatasetProfile:
    """Returns the profile of a dataset's files; `kept` names the filter that was used when they were fetched.

    Raises:
        ReleaseError: A file cannot be read.
    """
    chosen = _spread(files, settings.sample_files)
    sample = _Sample(name)
    rows = sum(sample.read(path, settings.sample_records) for path in chosen)
    sizes = {path: path.stat().st_size for path in files}
    share = sum(sizes[path] for path in chosen) / max(sum(sizes.values()), 1)
    log.info("%s: %d rows in %d of %d files", name, rows, len(chosen), len(files))
    return DatasetProfile(
        files=len(files),
        bytes=sum(sizes.values()),
        rows=round(rows / share) if share else 0,
        exact=len(chosen) == len(files),
        sampled=sample.sampled,
        unreadable=sample.unreadable,
        duplicates=sample.duplicates,
        fields={
            field: FieldProfile(filled=types.total(), types=dict(types))
            for field, types in sorted(sample.fields.items())
        },
        kept=kept,
    )


def _spread(files: list[Path], count: int) -> list[Path]:
    """Returns the first file, the last one, and others at equal distances."""
    if len(files) <= count:
        return files
    return [files[round(place * (len(files) - 1) / max(count - 1, 1))] for place in range(count)]


class _Sample:
    """Counts what the sampled records of a dataset hold."""

    def __init__(self, dataset: UpstreamDataset) -> None:
        self.sampled = self.unreadable = self.duplicates = 0
        self.fields: dict[str, Counter[JsonType]] = {}
        self._citations = dataset == "citations"
        self._keys: set[Any] = set()

    def read(self, path: Path, records: int) -> int:
        """Counts the fields of a file's first records, and returns the number of its lines."""
        rows = 0
        for line in read_lines(path):
            rows += 1
            if rows <= records:
                self.sampled += 1
                try:
                    self._add(parse_line(line))
                except BadInput:
                    self.unreadable += 1
        return rows

    def _add(self, record: JsonObject) -> None:
        key = self._key(record)
        if key in self._keys:
            self.duplicates += 1
        elif key is not None:
            self._keys.add(key)
        self._count(record.items())
        for name, value in record.items():
            if type(value) is dict:
                self._count((f"{name}.{inner}", item) for inner, item in value.items())

    def _key(self, record: JsonObject) -> object:
        if not self._citations:
            return _hashable(record.get("corpusid"))
        if "citationid" in record:
            return _hashable(record["citationid"])
        return _hashable(record.get("citingcorpusid")), _hashable(record.get("citedcorpusid"))

    def _count(self, items: Iterable[tuple[str, Any]]) -> None:
        for name, value in items:
            if name not in self.fields:
                if len(self.fields) >= MOST_FIELDS:
                    continue
                self.fields[name] = Counter()
            if value is not None and value not in ("", [], {}):
                self.fields[name][TYPES[type(value)]] += 1


def _hashable(value: Any) -> object:
    return value if isinstance(value, int | str) else None
