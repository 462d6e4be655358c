"""Finds the files that an edition is built from: a release, or diffs together with an earlier edition's records."""

import logging
from pathlib import Path
from typing import cast

from flows.pipeline.machine import Machine
from flows.pipeline.plans.corpus import RECORD_STAGES, Update
from schemas.errors import ReleaseError
from schemas.identifiers import DatasetName, ReleaseId
from schemas.manifest import EditionManifest, Ref, ReleaseEntry
from schemas.release import ReleaseDataset
from tasks.release.diffs import list_ends, note_other_diffs, open_diffs
from tasks.release.gate import list_refused
from tasks.release.listing import shorten
from tasks.release.mirror import find_files, list_releases, note_others, open_figures, open_release
from tasks.store.editions import Editions
from tasks.store.store import Store

log = logging.getLogger(__name__)


def fingerprints_in(root: Path) -> Path:
    """Returns the file in which a store remembers the digests of release files."""
    return root / "fingerprints.json"


def open_files(machine: Machine, release: str | None) -> dict[DatasetName, ReleaseDataset]:
    """Returns the files of a release in the machine's mirror, with digests; None: the newest that was not refused.

    Raises:
        ReleaseError: There is no such release, or it is incomplete.
    """
    refused = list_refused(machine.releases)
    known = [found for found in list_releases(machine.releases) if found not in refused]
    if release is None and (notes := note_others(machine.releases)):
        log.warning("no releases: %s", shorten(notes))
    if release is None and not known:
        raise ReleaseError(f"no release in {machine.releases}; choose another --releases, or run: arena release fetch")
    return open_release(machine.releases, release or known[-1], fingerprints_in(machine.root))


def open_update(machine: Machine, edition: str, release: str | None) -> Update:
    """Returns the records of an edition, and the diffs from its release to a later one, with their digests.

    Figures have no diffs: those in the folder of the later release are used, or else those of the earlier release.

    Args:
        machine: Where store and mirror are.
        edition: The earlier edition.
        release: The later release; None: the newest one that diffs lead to and that was not refused.

    Raises:
        UsageError: There is no such edition.
        ReleaseError: No diffs in the machine's mirror lead there, or one is incomplete.
    """
    store = Store(machine.root)
    earlier = Editions(store).load(edition)
    release = release or _newest_end(machine.releases, earlier.release)
    refs = {slot: earlier.slots[slot] for slot in RECORD_STAGES if slot in earlier.slots}
    datasets: dict[str, DatasetName] = {slot: _made_of(store, ref) for slot, ref in refs.items()}
    fingerprints = fingerprints_in(machine.root)
    diffs = open_diffs(machine.releases, earlier.release, release, set(datasets.values()), fingerprints)
    folders = (machine.releases / name for name in (release, earlier.release))
    pictured = next((folder / "figures" for folder in folders if find_files(folder, "figures")), None)
    return Update(
        ReleaseId(release),
        {slot: (ref, [diff.datasets[datasets[slot]] for diff in diffs]) for slot, ref in refs.items()},
        open_figures(pictured, release, fingerprints) if pictured else None,
        store.open(refs["paper_records"]).manifest.parameters["buckets"],
    )


def _newest_end(releases: Path, start: str) -> str:
    refused = list_refused(releases)
    if notes := note_other_diffs(releases):
        log.warning("no diffs: %s", shorten(notes))
    known = [end for end in list_ends(releases) if end > start and end not in refused]
    if not known:
        raise ReleaseError(f"no diffs in {releases} start at release {start}; run: arena release diff {start}")
    return known[-1]


def record_counts(store: Store, edition: EditionManifest) -> dict[DatasetName, int]:
    """Returns the number of records of each dataset of the edition's release."""
    refs = [edition.slots[slot] for slot in RECORD_STAGES if slot in edition.slots]
    return {_made_of(store, ref): store.open(ref).manifest.counts.kept for ref in refs}


def _made_of(store: Store, ref: Ref) -> DatasetName:
    """Returns the dataset of the release that a dataset of records was read from."""
    entries = store.open(ref).manifest.inputs.values()
    return next(cast(DatasetName, entry.dataset) for entry in entries if isinstance(entry, ReleaseEntry))
