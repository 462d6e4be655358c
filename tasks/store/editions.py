"""Editions: named sets of datasets."""

import fcntl
import re
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from schemas.errors import StoreError, UsageError
from schemas.identifiers import EDITION_PATTERN
from schemas.manifest import STORE_FORMAT, EditionManifest, Ref
from tasks.store.hashes import Problem
from tasks.store.store import Store
from tasks.store.whole_files import read_record, write_record

_OPEN_AFTER_PUBLISHING = ("run/", "scores/", "trees/", "tree_scores/", "airqa/run/", "airqa/scores/")

_REPORTS = ("report", "airqa/report")

_NAME = re.compile(EDITION_PATTERN)


class Editions:
    """The editions of a store.

    An edition grows while it is a draft: each finished stage is recorded under a slot (`papers`, `bm25/abstract`,
    `run/title.bm25.abstract`). Publishing freezes it: afterwards only runs, trees and answers of further systems, their
    scores and the report can be added.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._folder = store.root / "editions"

    def names(self) -> list[str]:
        """Returns the names of all editions, sorted."""
        return sorted(path.stem for path in self._folder.glob("*.json") if not path.is_dir())

    def load(self, name: str) -> EditionManifest:
        """Returns the edition `name`.

        Raises:
            UsageError: There is none; the message lists those there are.
            StoreError: Its file is damaged or of a newer version.
        """
        path = self._path(name)
        if path.is_dir():
            raise StoreError(f"{path}: is a folder, and an edition is a file; move it away")
        if not path.is_file():
            raise UsageError(
                f"no edition {name!r} in {self._store.root}; there are: {', '.join(self.names()) or 'none'}"
            )
        edition = read_record(
            path, EditionManifest, "restore it from a copy, or delete it and build the edition again: datasets are kept"
        )
        if edition.format > STORE_FORMAT:
            raise StoreError(f"{path}: format {edition.format}, this version reads up to {STORE_FORMAT}; update")
        return edition

    def record(self, name: str, release: str, slots: Mapping[str, Ref]) -> EditionManifest:
        """Adds or replaces slots of a draft, and removes slots that were made from a replaced dataset.

        Raises:
            UsageError: The edition is published and would change, or belongs to another release.
        """
        with self._lock(name):
            old = self.load(name) if self._path(name).is_file() else EditionManifest(name=name, release=release)
            if old.release != release:
                raise UsageError(
                    f"edition {name} is of release {old.release}, not {release}; choose another --edition name"
                )
            if all(old.slots.get(slot) == ref for slot, ref in slots.items()):
                return old if self._path(name).is_file() else self._write(old)
            if old.published and (
                frozen := [s for s, ref in slots.items() if old.slots.get(s) != ref and not _may_change(s, old)]
            ):
                raise UsageError(
                    f"edition {name} was published on {old.published:%Y-%m-%d}: {', '.join(frozen)} cannot change; "
                    "choose another --edition name"
                )
            merged = self._without_stale({**old.slots, **slots}, fresh=set(slots))
            return self._write(old.model_copy(update={"slots": dict(sorted(merged.items()))}))

    def publish(self, name: str) -> EditionManifest:
        """Makes an edition immutable, after checking the content of every file.

        Raises:
            StoreError: A dataset is missing or damaged.
        """
        with self._lock(name):
            edition = self.load(name)
            if edition.published:
                return edition
            if problems := self.problems(name, check_hashes=True):
                first = problems[0]
                raise StoreError(
                    f"edition {name} cannot be published: {first.path} {first.what} ({len(problems)} problems); "
                    f"run: arena rerun --damaged --edition {name}"
                )
            return self._write(edition.model_copy(update={"published": datetime.now(UTC)}))

    def problems(self, name: str, *, check_hashes: bool = False) -> list[Problem]:
        """Returns what is wrong with the edition's datasets: files that are missing or differ from the manifests.

        With `check_hashes` every byte is read.
        """
        return list(self._problems(self.load(name), check_hashes))

    def reaches(self, name: str) -> Iterator[Ref]:
        """Yields every dataset of the edition, and every dataset that those were made from."""
        seen: set[Ref] = set()
        waiting = list(self.load(name).slots.values())
        while waiting:
            ref = waiting.pop()
            if ref in seen:
                continue
            seen.add(ref)
            yield ref
            if dataset := self._store.find(ref.stage, ref.key):
                waiting += [entry for entry in dataset.manifest.inputs.values() if isinstance(entry, Ref)]

    def _problems(self, edition: EditionManifest, check_hashes: bool) -> Iterator[Problem]:
        for slot, ref in edition.slots.items():
            folder = self._store.folder(ref)
            try:
                dataset = self._store.open(ref)
            except StoreError as error:
                yield Problem(folder, f"({slot}): {str(error).partition('; ')[0]}")
                continue
            if check_hashes:
                yield from dataset.problems(check_hashes=True)
            if source := self._store.mended_input(dataset):
                yield Problem(folder, f"({slot}) was made before its damaged input {source} was replaced")

    def _without_stale(self, slots: dict[str, Ref], fresh: set[str]) -> dict[str, Ref]:
        """Takes out old slots that were built from a dataset of a stage slot that is now another one.

        Datasets of one content are one here, whatever they were made from. A dataset that continues one of its own
        stage is of the edition although the other is not.
        """
        current = {(ref.stage, ref.digest) for ref in slots.values()}
        stages = {ref.stage for ref in slots.values()}
        kept = dict(slots)
        for slot, ref in slots.items():
            dataset = None if slot in fresh else self._store.find(ref.stage, ref.key)
            if dataset and any(
                isinstance(entry, Ref)
                and entry.stage in stages - {ref.stage}
                and (entry.stage, entry.digest) not in current
                for entry in dataset.manifest.inputs.values()
            ):
                del kept[slot]
        return kept if kept == slots else self._without_stale(kept, fresh)

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise UsageError(f"edition name {name!r}: letters, digits, '.', '_' and '-' only, at most 64")
        return self._folder / f"{name}.json"

    def _write(self, edition: EditionManifest) -> EditionManifest:
        write_record(self._path(edition.name), edition, copied=True)
        return edition

    @contextmanager
    def _lock(self, name: str) -> Generator[None]:
        self._path(name)
        with (self._store.root / ".locks" / f"edition-{name}").open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield


def _may_change(slot: str, published: EditionManifest) -> bool:
    """Whether a slot of a published edition may be set: the report, what judges of search engines found, and what
    systems that are not there yet returned, with its scores.
    """
    return (
        slot in _REPORTS
        or slot.startswith("search/")
        or (slot.startswith(_OPEN_AFTER_PUBLISHING) and slot not in published.slots)
    )
