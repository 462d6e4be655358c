"""The files to fetch with their places on disk, their links, and the counts of a fetch."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from schemas.errors import ReleaseError
from schemas.fetching import FileState
from tasks.http.client import excerpt
from tasks.release.filenames import link_path
from tasks.store.whole_files import write_whole


class Withdrawn(ReleaseError):
    """A file is no longer in its dataset's list."""


class Target(NamedTuple):
    """A file to fetch: its folder and name on disk, its dataset, and the path of its link."""

    folder: Path
    name: str
    dataset: str
    path: str

    @property
    def file(self) -> Path:
        """Where the complete file is."""
        return self.folder / self.name

    @property
    def part(self) -> Path:
        """Where its bytes are until it is complete."""
        return self.folder / f".{self.name}.part"

    @property
    def note(self) -> Path:
        """Where its FileState is."""
        return self.folder / f".{self.name}.json"

    @property
    def kept(self) -> Path:
        """Where its filtered records are until the file gets its final name."""
        return self.folder / f".{self.name}.kept"

    @property
    def shown(self) -> str:
        """The path of the link for messages, shortened: a server chooses it."""
        return excerpt(self.path)

    def forget(self) -> None:
        """Removes the file and everything known of it."""
        for path in (self.note, self.part, self.kept, self.file):
            path.unlink(missing_ok=True)

    def state(self) -> FileState | None:
        """Returns what is known of the file; None when nothing is, or it is about another file."""
        try:
            state = FileState.model_validate_json(self.note.read_bytes())
        except (OSError, ValueError):
            return None
        return state if state.path == self.path else None

    def have(self) -> int:
        """Returns the number of bytes received so far."""
        return self.part.stat().st_size if self.part.exists() else 0

    def remember(self, state: FileState) -> FileState:
        """Writes what is known of the file, whole or not at all, and returns it."""
        write_whole(self.note, state.model_dump_json().encode())
        return state


class Links:
    """Links to the files of one dataset, renewed for all files at once.

    Args:
        ask: Returns a fresh list of links from the API.
    """

    def __init__(self, ask: Callable[[], Sequence[str]]) -> None:
        self._ask, self._lock = ask, threading.Lock()
        self._links = self._fresh()

    @property
    def paths(self) -> list[str]:
        """Link paths of all files, in ascending order."""
        return sorted(self._links)

    def link(self, path: str) -> str:
        """Returns the link to a file.

        Raises:
            Withdrawn: The list no longer has the file.
        """
        try:
            return self._links[path]
        except KeyError:
            raise Withdrawn(f"{excerpt(path)}: is no longer in the list of files") from None

    def renew(self, path: str, stale: str) -> bool:
        """Gets a fresh list unless the file's link is fresh already; returns whether it asked."""
        with self._lock:
            if self._links.get(path) != stale:
                return False
            self._links = self._fresh()
            return True

    def _fresh(self) -> dict[str, str]:
        return {link_path(link): link for link in self._ask()}


@dataclass
class Tally:
    """Counts over all files of a fetch so far; `total` is the bytes of all files that the API lists."""

    total: int = 0
    present: int = 0
    received: int = 0
    restarts: int = 0
    refetched: int = 0
    renewed: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, name: str, count: int = 1) -> None:
        """Adds to one of the counts."""
        with self._lock:
            setattr(self, name, getattr(self, name) + count)
