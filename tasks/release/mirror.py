"""Finds the files of a release in a local mirror, and fingerprints them.

A dataset is a folder, `<releases>/<release>/<dataset>/<any file names>`, or a single file, as in Semantic Scholar's
official samples: `<releases>/<release>/<dataset>` with one of `SUFFIXES`. A release's name is a date; anything else
beside releases or datasets is noted. What lies among the files of a dataset and cannot be read is an error (see
`listing`). Figures have the layout of the pdffigures2 extractor: `figures/data/<corpus_id>.json` beside
`figures/img/<picture>`.
"""

import logging
import os
from pathlib import Path
from typing import get_args

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from schemas.errors import ReleaseError
from schemas.identifiers import DatasetName, ReleaseId, is_release
from schemas.release import ReleaseDataset, SourceFile
from tasks.http.stop import stoppable_pool
from tasks.release.fetched import MANIFEST
from tasks.release.listing import find_trouble, list_entries, list_folder, refuse, shorten
from tasks.store.dataset import sha256_file
from tasks.store.whole_files import write_whole

log = logging.getLogger(__name__)

DATASETS: tuple[DatasetName, ...] = get_args(DatasetName)
REQUIRED: tuple[DatasetName, ...] = ("papers", "abstracts", "citations")
SUFFIXES = (".gz", ".jsonl.gz", ".json.gz", ".jsonl", ".json")


OWN = ("diffs", "profiles", "quarantine")
"""Folders of a mirror that hold no release but belong to it."""


class Hashed(BaseModel):
    """A file's hash, with what shows that the file is still the one that was hashed.

    A program can set `mtime_ns` back; `ctime_ns` and the inode it cannot.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    size: int
    mtime_ns: int
    ctime_ns: int = -1
    inode: int = -1
    sha256: str

    @classmethod
    def of(cls, stat: os.stat_result, sha256: str) -> "Hashed":
        """Returns the hash of a file whose state is `stat`."""
        return cls(
            size=stat.st_size,
            mtime_ns=stat.st_mtime_ns,
            ctime_ns=stat.st_ctime_ns,
            inode=stat.st_ino,
            sha256=sha256,
        )


_CACHE = TypeAdapter(dict[str, Hashed])


def list_releases(releases: Path) -> list[ReleaseId]:
    """Returns the names of the releases in a mirror, oldest first: its dated folders with at least one dataset.

    A dated folder that cannot be read counts: opening it tells why.
    """
    return [
        ReleaseId(folder.name) for folder in list_entries(releases) if is_release(folder.name) and _has_dataset(folder)
    ]


def note_others(releases: Path) -> list[str]:
    """Returns what lies in a mirror and is no release, each with the reason; the program's own folders are left out."""
    notes: list[str] = []
    for path in list_entries(releases):
        if path.name in OWN or path.name.startswith("."):
            continue
        if not is_release(path.name):
            notes.append(f"{path} (its name is no date)")
        elif not _has_dataset(path):
            notes.append(f"{path} (it holds no dataset)")
    return notes


def _has_dataset(folder: Path) -> bool:
    """Returns whether a release's folder holds anything of a dataset, or cannot be looked into."""
    try:
        names = {path.name for path in folder.iterdir()}
    except (FileNotFoundError, NotADirectoryError):
        return folder.is_symlink()
    except OSError:
        return True
    return any(name in names for dataset in DATASETS for name in (dataset, *(f"{dataset}{s}" for s in SUFFIXES)))


def open_release(releases: Path, release: str, fingerprints: Path) -> dict[DatasetName, ReleaseDataset]:
    """Returns the datasets of one release with the sizes and hashes of their files.

    Args:
        releases: Folder with one folder for each release.
        release: Name of the release.
        fingerprints: JSON file with hashes by path and state, so that each file is hashed once.

    Returns:
        `papers`, `abstracts`, `citations`; `s2orc_v2`, or else `s2orc`, when there are full texts; and every other one
        of `DATASETS` that is there.

    Raises:
        ReleaseError: There is no such release, a dataset is missing, or a file is empty or cannot be read. So is
            anything among the files that is none.
    """
    known = list_releases(releases)
    if release not in known:
        raise ReleaseError(f"release {release!r} is not in {releases}; there: {', '.join(known) or 'none'}")
    folder = releases / release
    found: dict[DatasetName, list[Path]] = {
        dataset: files for dataset in DATASETS if (files := find_files(folder, dataset))
    }
    if missing := [dataset for dataset in REQUIRED if dataset not in found]:
        raise ReleaseError(
            f"release {release} in {releases}: no files of {', '.join(missing)} (found: {', '.join(found)}); "
            "fetch them into a folder of that name"
        )
    if "s2orc_v2" in found and found.pop("s2orc", None):
        log.warning("release %s holds s2orc and s2orc_v2: s2orc_v2 is read, s2orc is not", release)
    if notes := _note_beside(folder):
        log.warning("of release %s, these are not read: %s", release, shorten(notes))
    hashed = hash_files([path for files in found.values() for path in files], fingerprints)
    return {
        dataset: describe_dataset(
            release, dataset, folder / dataset if (folder / dataset).is_dir() else folder, files, hashed
        )
        for dataset, files in found.items()
    }


def open_figures(folder: Path, release: str, fingerprints: Path) -> ReleaseDataset:
    """Returns a folder of figures as an input of stage `figures`; the key depends on its content, not on its place.

    Args:
        folder: In pdffigures2's layout: `data/<corpus_id>.json` beside `img/<picture>`; other files do not count.
        release: The release that the figures are used with.
        fingerprints: As for `open_release`.

    Raises:
        ReleaseError: The folder holds no figures, or a file cannot be read.
    """
    files = _find_figures(folder)
    if not files:
        raise ReleaseError(f"{folder}: no figures; expected data/<corpus_id>.json beside img/<picture>")
    return describe_dataset(release, "figures", folder, files, hash_files(files, fingerprints))


def describe_dataset(
    release: str, dataset: DatasetName, directory: Path, files: list[Path], hashed: dict[Path, Hashed]
) -> ReleaseDataset:
    """Returns files under `directory` as a dataset of a release, each named by its relative path."""
    named = [(path.relative_to(directory).as_posix(), hashed[path]) for path in files]
    return ReleaseDataset(
        release=ReleaseId(release),
        dataset=dataset,
        directory=directory,
        files=tuple(SourceFile(name=name, size=found.size, sha256=found.sha256) for name, found in named),
    )


def _find_figures(folder: Path) -> list[Path]:
    """Returns lists and pictures, sorted by name; empty files do not count."""
    return sorted(path for path in list_files(folder / "data", folder / "img") if path.stat().st_size)


def find_files(folder: Path, dataset: DatasetName) -> list[Path]:
    """Returns the files of a dataset in a release's folder, sorted by name; none when there is no such dataset.

    Raises:
        ReleaseError: Something among the files cannot be read, or the dataset is there twice.
    """
    if dataset == "figures":
        return _find_figures(folder / dataset)
    places = [path for suffix in ("", *SUFFIXES) if os.path.lexists(path := folder / f"{dataset}{suffix}")]
    if len(places) > 1:
        raise ReleaseError(f"{dataset} is there more than once ({', '.join(map(str, places))}); move all but one away")
    if places and places[0].name != dataset:
        refuse([f"{path} ({trouble})" for path in places if (trouble := find_trouble(path))])
        return places
    if places and not places[0].is_dir():
        refuse([f"{places[0]} ({find_trouble(places[0]) or 'a file without suffix where a folder is expected'})"])
    return list_files(*places)


def list_files(*folders: Path) -> list[Path]:
    """Returns the files of folders that hold nothing else, and logs entries with well-known names.

    Raises:
        ReleaseError: Another entry cannot be read as a file.
    """
    found = [list_folder(folder) for folder in folders]
    refuse([error for listing in found for error in listing.errors])
    for listing in found:
        if listing.notes:
            log.info("not read: %s", shorten(listing.notes))
    return [path for listing in found for path in listing.files]


def _note_beside(folder: Path) -> list[str]:
    """Returns what lies in a release's folder beside its datasets."""
    datasets = {f"{dataset}{suffix}" for dataset in DATASETS for suffix in ("", *SUFFIXES)}
    return [
        str(path)
        for path in list_entries(folder)
        if path.name not in datasets and not path.name.startswith(".") and path.name != MANIFEST
    ]


def hash_files(paths: list[Path], fingerprints: Path) -> dict[Path, Hashed]:
    """Returns the hashes of files and computes only those of changed files; `fingerprints` as for `open_release`."""
    cache = _load_cache(fingerprints)
    with stoppable_pool(min(32, os.cpu_count() or 1)) as pool:
        hashed = dict(zip(paths, pool.map(lambda path: _hash_file(path, cache), paths), strict=True))
    updated = cache | {str(path.absolute()): entry for path, entry in hashed.items()}
    if updated != cache:
        fingerprints.parent.mkdir(parents=True, exist_ok=True)
        write_whole(fingerprints, _CACHE.dump_json(updated))
    return hashed


def _load_cache(fingerprints: Path) -> dict[str, Hashed]:
    try:
        return _CACHE.validate_json(fingerprints.read_bytes())
    except FileNotFoundError:
        return {}
    except ValidationError:
        log.warning("%s cannot be read as a cache of hashes: every file is hashed again", fingerprints)
        return {}


def _hash_file(path: Path, cache: dict[str, Hashed]) -> Hashed:
    try:
        stat = path.stat()
        if not stat.st_size:
            raise ReleaseError(f"{path}: is empty; fetch it again")
        known = cache.get(str(path.absolute()))
        if known and known == Hashed.of(stat, known.sha256):
            return known
        return Hashed.of(stat, sha256_file(path))
    except OSError as error:
        raise ReleaseError(f"{path}: cannot be read ({error.strerror})") from error
