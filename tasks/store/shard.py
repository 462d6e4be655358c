"""One shard of a stage: its files appear together, with a marker, or not at all."""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from pydantic import BaseModel, ConfigDict

from schemas.identifiers import Digest
from schemas.manifest import Counts, FileEntry
from tasks.store.dataset import describe_file

MARKERS = ".shards"
SCRATCH = ".scratch"
SHARED = "shared"

T = TypeVar("T")


def fsync_path(path: Path) -> None:
    """Flushes a file or folder to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_whole(path: Path, data: bytes) -> None:
    """Writes a file completely or not at all, even when the machine crashes."""
    draft = path.with_name(f".{path.name}.tmp")
    draft.write_bytes(data)
    fsync_path(draft)
    draft.replace(path)
    fsync_path(path.parent)


class Marker(BaseModel):
    """Written when a shard is finished: its files, counts, key, and whether it was taken over."""

    model_config = ConfigDict(extra="forbid")

    files: list[FileEntry]
    counts: Counts
    key: Digest | None
    taken: bool


@dataclass
class Shard:
    """One resumable part of a stage: the files it writes appear together, with their counts, or not at all.

    Use as a context manager; files asked for by `file()` get their names on a clean exit only.
    """

    folder: Path
    name: str
    key: Digest | None = None
    counts: Counts = field(default_factory=Counts)
    taken: bool = False
    _files: list[str] = field(default_factory=list[str])
    _described: dict[str, FileEntry] = field(default_factory=dict[str, FileEntry])

    def file(self, name: str) -> Path:
        """Returns the path to write the file that will be published as `name` (relative to the dataset)."""
        self._files.append(name)
        path = self._temporary(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def scratch(self, name: str) -> Path:
        """Returns the path to write a file that later shards read as `workspace.scratch / name`, unpublished."""
        return self.file(f"{SCRATCH}/{SHARED}/{name}")

    def take(self, folder: Path, entry: FileEntry) -> None:
        """Publishes a file of the dataset in `folder` here too, unread: a hard link, or a copy where there are none."""
        path = self.file(entry.path)
        try:
            path.hardlink_to(folder / entry.path)
        except FileNotFoundError:
            raise
        except OSError:
            shutil.copyfile(folder / entry.path, path)
        self._described[entry.path] = entry

    def _temporary(self, name: str) -> Path:
        return self.folder / SCRATCH / f"{self.name}.{os.getpid()}" / name

    def __enter__(self) -> Self:
        shutil.rmtree(self._temporary(""), ignore_errors=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._commit()
        shutil.rmtree(self._temporary(""), ignore_errors=True)

    def _commit(self) -> None:
        for name in self._files:
            temporary, final = self._temporary(name), self.folder / name
            final.parent.mkdir(parents=True, exist_ok=True)
            fsync_path(temporary)
            temporary.replace(final)
        marker = self.folder / MARKERS / f"{self.name}.json"
        marker.parent.mkdir(exist_ok=True)
        draft = marker.with_suffix(".tmp")
        published = [name for name in self._files if not name.startswith(f"{SCRATCH}/")]
        files = [self._described.get(name) or describe_file(self.folder, name) for name in published]
        draft.write_text(Marker(files=files, counts=self.counts, key=self.key, taken=self.taken).model_dump_json())
        fsync_path(draft)
        draft.replace(marker)


def in_shards(items: Sequence[T], size: int, *, least: int = 0) -> dict[str, Sequence[T]]:
    """Returns the items by shard name, in their order.

    Args:
        items: What is worked on.
        size: Items of a shard; the last may have fewer.
        least: Shards there are at least; 1 makes an empty shard of no items.
    """
    number = max(least, -(-len(items) // size))
    return {f"{place:05d}": items[place * size : (place + 1) * size] for place in range(number)}
