"""What an edition's slots would be asked for now, without importing their stages when the code is as it was.

The key of a slot needs the version of its stage and the settings with today's defaults. Both are in the stage's module,
and importing all stages takes seconds. So they are remembered in the store, under a stamp of the code's files.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import schemas
import tasks
from flows.pipeline.rerun import check_sources, make_request
from schemas.manifest import Fingerprint, Ref
from tasks.store.recipes import PlannedStage
from tasks.store.stages import declared_stages
from tasks.store.store import Store
from tasks.store.whole_files import write_whole

FILE = ".settings.json"
"""In the root of the store; it may be deleted at any time."""


class Fingerprints:
    """Fingerprints of planned slots.

    Args:
        store: Where versions and settings are remembered.
    """

    def __init__(self, store: Store) -> None:
        self._path = store.root / FILE
        self._stamp = _stamp_code()
        self._known = self._read()
        self._read_before = len(self._known)

    def find(self, slot: str, entry: PlannedStage, slots: Mapping[str, Ref]) -> Fingerprint:
        """Returns what a slot would be asked for now.

        Raises:
            UsageError: An input is missing, or the recorded settings are no longer valid.
        """
        check_sources(slot, entry, slots)
        name = hashlib.sha256(json.dumps([entry.stage, entry.parameters], sort_keys=True).encode()).hexdigest()
        if name not in self._known:
            found = make_request(slot, entry, slots).fingerprint
            if not declared_stages()[entry.stage].module.startswith(f"{tasks.__name__}."):
                return found  # the stamp does not cover other packages
            self._known[name] = {"version": found.version, "parameters": found.parameters}
        inputs = {name: slots[item] if isinstance(item, str) else item for name, item in entry.inputs.items()}
        digests = {name: item.digest for name, item in inputs.items()}
        return Fingerprint(entry.stage, inputs=digests, **self._known[name])

    def save(self) -> None:
        """Remembers what was found, where the store can be written."""
        if len(self._known) == self._read_before:
            return
        try:
            write_whole(self._path, json.dumps({"code": self._stamp, "known": self._known}).encode())
        except OSError:  # a store that cannot be written is shown as well, only more slowly
            return

    def _read(self) -> dict[str, Any]:
        try:
            found = json.loads(self._path.read_bytes())
            return found["known"] if found["code"] == self._stamp else {}
        except (OSError, ValueError, KeyError, TypeError):
            return {}


def _stamp_code() -> str:
    """Returns a hash of names, sizes and times of the files that stages and settings are written in."""
    found = hashlib.sha256()
    for package in (schemas, tasks):
        for folder in package.__path__:
            for path in sorted(Path(folder).rglob("*.py")):
                status = path.stat()
                found.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode())
    return found.hexdigest()
