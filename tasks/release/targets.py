"""What is fetched: files with their places on disk, links that are renewed, and the counts of a fetch."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from schemas.errors import ReleaseError
from schemas.fetching import FileState
from tasks.release.filenames import link_path
from tasks.store.shard import fsync_path


class Withdrawn(ReleaseError):
    """A file is no longer in the list of its dataset."""


class Target(NamedTuple):
    """A file to fetch: the folder it comes to, its name there, its dataset, the path of its link."""

    folder: Path
    name: str
    dataset: str
    path: str

    @property
    def file(self) -> Path:
        """Where it lies when it is complete."""
        return self.folder / self.name

    @property
    def part(self) -> Path:
        """Where its bytes lie until then."""
        return self.folder / f".{self.name}.part"

    @property
    def note(self) -> Path:
        """Where its FileState lies."""
        return self.folder / f".{self.name}.json"

    @property
    def kept(self) -> Path:
        """Where its records that stay lie until it has its name."""
        return self.folder / f".{self.name}.kept"

    def forget(self) -> None:
        """Removes all of it."""
        for path in (self.note, self.part, self.kept, self.file):
            path.unlink(missing_ok=True)

    def state(self) -> FileState | None:
        """What is known of it; None when nothing is, or of another file."""
        try:
            state = FileState.model_validate_json(self.note.read_bytes())
        except (OSError, ValueError):
            return None
        return state if state.path == self.path else None

    def have(self) -> int:
        """Bytes that came so far."""
        return self.part.stat().st_size if self.part.exists() else 0

    def remember(self, state: FileState) -> FileState:
        """Writes what is known of it, whole or not at all."""
        draft = self.folder / f".{self.name}.tmp"
        draft.write_text(state.model_dump_json())
        fsync_path(draft)
        draft.replace(self.note)
        return state


class Links:
    """Links to the files of one dataset, renewed for all its files at once.

    Args:
        ask: Asks the API for the list.
    """

    def __init__(self, ask: Callable[[], Sequence[str]]) -> None:
        self._ask, self._lock = ask, threading.Lock()
        self._links = self._fresh()

    @property
    def paths(self) -> list[str]:
        """Link paths of all files, ascending."""
        return sorted(self._links)

    def link(self, path: str) -> str:
        """The link to a file.

        Raises:
            Withdrawn: The list has no such file any more.
        """
        try:
            return self._links[path]
        except KeyError:
            raise Withdrawn(f"{path}: is no longer in the list of files") from None

    def renew(self, path: str, stale: str) -> bool:
        """Asks for a fresh list unless another file's link was renewed since; returns whether it asked."""
        with self._lock:
            if self._links.get(path) != stale:
                return False
            self._links = self._fresh()
            return True

    def _fresh(self) -> dict[str, str]:
        return {link_path(link): link for link in self._ask()}


@dataclass
class Tally:
    """What happened so far, over all files of a fetch; `total` is the bytes of all files that the API lists."""

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
