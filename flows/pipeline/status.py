"""The state of each slot of an edition, and whether the next run would build it."""

import fcntl
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from flows.pipeline.fingerprints import Fingerprints
from schemas.errors import UsageError
from schemas.manifest import FILE_FORMAT, EditionManifest, Fingerprint, Manifest, Ref
from tasks.store.editions import Editions
from tasks.store.hashes import last_read
from tasks.store.recipes import PlannedStage, Recipes
from tasks.store.shard import MARKERS
from tasks.store.store import Store

State = Literal["built", "running", "unfinished", "waiting", "missing", "damaged", "outdated"]
"""built: complete and up to date. running: a process is building it. unfinished: a run failed or was killed; finished
shards are kept. waiting: its inputs are not built yet. missing: not built, or deleted. damaged: a file is missing or
has changed, or an input was damaged when it was built. outdated: the stage, its settings or its inputs have changed."""


class SlotStatus(NamedTuple):
    """One slot.

    Attributes:
        slot: Its name in the edition.
        stage: The stage that builds it.
        state: One of `State`.
        why: The reason for the state; empty if it is built.
        built: Start of its build; None if there is no dataset.
        size: Size in bytes.
        runs: Whether the next run would build it: `yes`, `no`, or `if its inputs change`.
    """

    slot: str
    stage: str
    state: State
    why: str
    built: datetime | None
    size: int
    runs: Literal["yes", "no", "if its inputs change"]

    @property
    def age_hours(self) -> float | None:
        """Hours since its build started."""
        return (datetime.now(UTC) - self.built).total_seconds() / 3600 if self.built else None


class _Found(NamedTuple):
    state: State
    why: str
    manifest: Manifest | None = None


def edition_status(store: Store, name: str) -> list[SlotStatus]:
    """Returns every slot that the edition has or has requested, in the order of data.

    Of a published edition nothing would run but the repair of what is missing or damaged: it never changes.

    Raises:
        UsageError: There is no such edition.
    """
    edition = Editions(store).load(name)
    planned = Recipes(store).load(edition)
    alone = {slot: ref for slot, ref in edition.slots.items() if slot not in planned}
    found = {slot: _look(store, ref, None) for slot, ref in alone.items()}
    asked = Fingerprints(store)
    found |= {slot: _look_at_planned(store, edition, asked, (slot, entry)) for slot, entry in planned.items()}
    asked.save()
    stages = {slot: ref.stage for slot, ref in alone.items()} | {slot: entry.stage for slot, entry in planned.items()}
    repaired = ("missing", "damaged", "unfinished", "running") if edition.published else get_args(State)
    running = {slot for slot, seen in found.items() if seen.state != "built" and seen.state in repaired}
    following = set[str]() if edition.published else _following(planned, running)
    return [
        SlotStatus(
            slot,
            stages[slot],
            seen.state,
            seen.why,
            seen.manifest.started if seen.manifest else None,
            sum(file.size for file in seen.manifest.files) if seen.manifest else 0,
            "yes" if slot in running else "if its inputs change" if slot in following else "no",
        )
        for slot, seen in found.items()
    ]


def _following(planned: Mapping[str, PlannedStage], running: set[str]) -> set[str]:
    reached = set(running)
    for slot, entry in planned.items():
        if entry.sources() & reached:
            reached.add(slot)
    return reached - running


def _look_at_planned(
    store: Store, edition: EditionManifest, asked: Fingerprints, planned: tuple[str, PlannedStage]
) -> _Found:
    slot, entry = planned
    ref = edition.slots.get(slot)
    try:
        request = asked.find(slot, entry, edition.slots)
    except UsageError as error:
        waits = sorted(entry.sources() - edition.slots.keys())
        return _Found("waiting", f"for {', '.join(waits)}") if waits else _Found("outdated", str(error))
    found = _look(store, ref, request)
    if found.state == "built" or not (staging := store.root / ".staging" / entry.stage / request.key).is_dir():
        return found
    if _is_locked(store.root / ".locks" / f"{entry.stage}-{request.key}"):
        return _Found("running", "a process is at it")
    shards = len(list((staging / MARKERS).glob("*.json")))
    return _Found("unfinished", f"{shards} finished shards are kept")


def _look(store: Store, ref: Ref | None, request: Fingerprint | None) -> _Found:
    if ref is None:
        return _Found("missing", "was never finished")
    if not store.folder(ref).is_dir():
        return _Found("missing", f"{store.folder(ref)} is not there")
    dataset = store.find(ref.stage, ref.key)
    if dataset is None:
        return _Found("damaged", f"{store.folder(ref)}: a file is absent or of another size")
    if last_read(dataset.folder) and dataset.damage:  # what was never hashed is not hashed for this
        return _Found("damaged", f"{dataset.damage[0].path} {dataset.damage[0].what}", dataset.manifest)
    if source := store.mended_input(dataset):
        return _Found("damaged", f"it was made before its damaged input {source} was replaced", dataset.manifest)
    if dataset.manifest.digest != ref.digest:
        return _Found("outdated", "it was rebuilt to other bytes for another edition", dataset.manifest)
    if request is None or request.key == ref.key:
        return _Found("built", "", dataset.manifest)
    return _Found("outdated", _difference(dataset.manifest, request), dataset.manifest)


def _difference(manifest: Manifest, request: Fingerprint) -> str:
    if manifest.version != request.version:
        return f"the stage's version is {request.version}, this was built by {manifest.version}"
    if manifest.file_format != FILE_FORMAT:
        return f"the format of files is {FILE_FORMAT}, this was written in {manifest.file_format}"
    changed = [
        name
        for name, digest in request.inputs.items()
        if name not in manifest.inputs or manifest.inputs[name].digest != digest
    ]
    return f"changed since: {', '.join(changed)}" if changed else "its settings have changed"


def _is_locked(path: Path) -> bool:
    if not path.exists():
        return False
    with path.open() as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False
