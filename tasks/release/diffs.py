"""Finds the diffs between releases in a local mirror.

A diff is a folder, `<releases>/diffs/<from>_<to>/<dataset>/{updates,deletes}/<any file names>`; `from` and `to` are
dates. A dataset without files is unchanged when it has a folder or the manifest lists it. What lies among the files and
cannot be read is an error (see `listing`).
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from schemas.errors import ReleaseError
from schemas.identifiers import DatasetName, ReleaseId, is_release
from schemas.release import ReleaseDataset
from tasks.release.fetched import read_manifest
from tasks.release.listing import list_entries, list_folder, refuse
from tasks.release.mirror import describe_dataset, hash_files, list_files

DIFFS = "diffs"
"""Folder of the mirror with all diffs."""

UPDATES = "updates/"
DELETES = "deletes/"


class Diff(NamedTuple):
    """Changes from one release to the next, by dataset."""

    start: ReleaseId
    end: ReleaseId
    datasets: Mapping[DatasetName, ReleaseDataset]


def list_ends(releases: Path) -> list[str]:
    """Returns the releases that diffs of the mirror lead to, oldest first."""
    return sorted({end for _, end in _find_diffs(releases / DIFFS)})


def note_other_diffs(releases: Path) -> list[str]:
    """Returns what lies among the diffs of a mirror and is none, each with the reason."""
    known = set(_find_diffs(releases / DIFFS).values())
    others = [path for path in list_entries(releases / DIFFS) if path not in known and not path.name.startswith(".")]
    return [f"{path} (not a folder named <date>_<date>)" for path in others]


def _find_diffs(diffs: Path) -> dict[tuple[str, str], Path]:
    """Returns the folders of diffs by start and end; one that cannot be looked into counts."""
    found: dict[tuple[str, str], Path] = {}
    for path in list_entries(diffs):
        start, _, end = path.name.partition("_")
        if is_release(start) and is_release(end) and (path.is_dir() or path.is_symlink()):
            found[start, end] = path
    return found


def open_diffs(
    releases: Path, start: str, end: str, datasets: Collection[DatasetName], fingerprints: Path
) -> list[Diff]:
    """Returns the diffs that lead from one release to another, in the order in which they apply.

    Args:
        releases: The mirror.
        start: The earlier release.
        end: The later one.
        datasets: Which datasets each diff must have.
        fingerprints: As for `open_release`.

    Returns:
        The shortest chain; names of files begin with `UPDATES` or `DELETES`.

    Raises:
        ReleaseError: No chain leads there, or a diff lacks a dataset.
    """
    return [_open(folder, datasets, fingerprints) for folder in _find_chain(releases / DIFFS, start, end)]


def _find_chain(diffs: Path, start: str, end: str) -> list[Path]:
    known = _find_diffs(diffs)
    chains: dict[str, list[Path]] = {start: []}
    waiting = [start]
    while waiting and end not in chains:
        here = waiting.pop(0)
        for (source, target), path in known.items():
            if source == here and target not in chains:
                chains[target] = [*chains[here], path]
                waiting.append(target)
    if end not in chains:
        there = ", ".join(sorted(path.name for path in known.values())) or "none"
        raise ReleaseError(
            f"no diffs lead from release {start} to {end} in {diffs} (there: {there}); fetch them, or build the "
            "whole release"
        )
    return chains[end]


def _open(folder: Path, datasets: Collection[DatasetName], fingerprints: Path) -> Diff:
    manifest = read_manifest(folder)
    fetched = {name.partition("/")[0] for name in manifest.datasets} if manifest else set[str]()
    if missing := [name for name in datasets if name not in fetched and not (folder / name).is_dir()]:
        raise ReleaseError(f"{folder}: no diff of {', '.join(missing)}; fetch it, or build the whole release")
    kinds = [kind.rstrip("/") for kind in (UPDATES, DELETES)]
    for dataset in datasets:
        beside = list_folder(folder / dataset, kinds)
        refuse([*beside.errors, *(f"{path} (a file beside {' and '.join(kinds)})" for path in beside.files)])
    files: dict[DatasetName, list[Path]] = {
        dataset: sorted(list_files(*(folder / dataset / kind for kind in kinds))) for dataset in datasets
    }
    hashed = hash_files([path for paths in files.values() for path in paths], fingerprints)
    found: dict[DatasetName, ReleaseDataset] = {
        dataset: describe_dataset(folder.name, dataset, folder / dataset, paths, hashed)
        for dataset, paths in files.items()
    }
    start, _, end = folder.name.partition("_")
    return Diff(ReleaseId(start), ReleaseId(end), found)
