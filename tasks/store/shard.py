"""One shard of a stage: its files appear together, with a marker, or not at all."""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from schemas.identifiers import Digest
from schemas.manifest import Counts, FileEntry
from tasks.store.dataset import describe_file
from tasks.store.whole_files import fsync_path, write_record

MARKERS = ".shards"
SCRATCH = ".scratch"
SHARED = "shared"

T = TypeVar("T")


class Marker(BaseModel):
    """Written when a shard is finished: its files, counts, key, whether it was taken over, and its scratch files."""

    model_config = ConfigDict(extra="forbid")

    files: list[FileEntry]
    counts: Counts
    key: Digest | None
    taken: bool
    scratch: list[FileEntry] = Field(default_factory=list[FileEntry])


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
        written = [self._described.get(name) or describe_file(self.folder, name) for name in self._files]
        scratch = [file for file in written if file.path.startswith(f"{SCRATCH}/")]
        files = [file for file in written if file not in scratch]
        write_record(marker, Marker(files=files, counts=self.counts, key=self.key, taken=self.taken, scratch=scratch))


def in_shards(items: Sequence[T], size: int, *, least: int = 0) -> dict[str, Sequence[T]]:
    """Returns the items by shard name, in their order.

    Args:
        items: What is worked on.
        size: Items of a shard; the last may have fewer.
        least: Shards there are at least; 1 makes an empty shard of no items.
    """
    number = max(least, -(-len(items) // size))
    return {f"{place:05d}": items[place * size : (place + 1) * size] for place in range(number)}
