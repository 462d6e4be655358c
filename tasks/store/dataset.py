"""A published dataset, read-only."""

import hashlib
import os
import shutil
from functools import cached_property
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from schemas.errors import StoreError
from schemas.manifest import FileEntry, Manifest, Ref
from tasks.store.parquet import count_rows

if TYPE_CHECKING:  # most worker processes need no DuckDB
    import duckdb

MAIN = "part"
"""File prefix of a dataset's main table; a side table's prefix is its name."""


OPENED = ".opened"
"""Folder of a store with links to datasets' files: see `Dataset.linked`."""


class Problem(NamedTuple):
    """Something wrong with a stored file."""

    path: Path
    what: str


class Dataset:
    """An immutable folder of files with a manifest.

    Args:
        folder: `ROOT/<stage>/<key>`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def manifest(self) -> Manifest:
        """The dataset's manifest.

        Raises:
            StoreError: It is absent or unreadable.
        """
        path = self.folder / "manifest.json"
        try:
            return Manifest.model_validate_json(path.read_bytes())
        except (OSError, ValueError) as error:
            raise StoreError(f"{path}: no readable manifest ({error}); rebuild the stage with force") from error

    @property
    def ref(self) -> Ref:
        """The dataset's name."""
        return self.manifest.ref

    def ancestors(self) -> dict[Ref, "Dataset"]:
        """Returns every dataset that this one was made from, nearest first, without those that were deleted since."""
        found: dict[Ref, Dataset] = {}
        waiting = [entry for entry in self.manifest.inputs.values() if isinstance(entry, Ref)]
        while waiting:
            ref = waiting.pop(0)
            dataset = Dataset(self.folder.parents[1] / ref.stage / ref.key)
            if ref not in found and (dataset.folder / "manifest.json").is_file():
                found[ref] = dataset
                waiting += [entry for entry in dataset.manifest.inputs.values() if isinstance(entry, Ref)]
        return found

    def path(self, name: str) -> Path:
        """Returns the full path of one file of the dataset."""
        return self.folder / name

    def linked(self, name: str) -> Path:
        """Returns a folder of links to the files of one of the dataset's folders, for libraries that write beside them.

        Such a library (tantivy, with its lock file) may write at any time after an index was opened, even after it was
        dropped, so a temporary folder could not be deleted safely. The links are made once, in `ROOT/.opened`, shared
        by all processes, and collected after their dataset. If the root is read-only, they are made in a temporary
        folder that is left to the operating system.
        """
        folder = self.folder.parents[1] / OPENED / f"{self.folder.name}-{self.manifest.digest[:16]}-{name}"
        if folder.is_dir():
            return folder
        try:
            folder.parent.mkdir(exist_ok=True)
            draft = Path(mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
        except OSError:
            draft = folder = Path(mkdtemp(prefix="arena-"))
        for path in self.path(name).iterdir():
            (draft / path.name).symlink_to(os.path.relpath(path, draft))
        try:
            draft.replace(folder)
        except OSError:  # another process was faster: its folder has the same links, and nobody has opened the draft
            shutil.rmtree(draft)
        return folder

    def files(self, prefix: str = MAIN) -> list[Path]:
        """Parquet files of one table, sorted by name: `part` for the main table, else a side table's name."""
        names = [f.path for f in self.manifest.files if f.path.startswith(f"{prefix}-") and f.path.endswith(".parquet")]
        return [self.folder / name for name in sorted(names)]

    def table(self, prefix: str = MAIN, columns: list[str] | None = None) -> pa.Table:
        """Reads one table into memory; meant for tables that are small."""
        return pa.concat_tables(pq.read_table(path, columns=columns) for path in self.files(prefix))

    def relation(self, connection: "duckdb.DuckDBPyConnection", prefix: str = MAIN) -> "duckdb.DuckDBPyRelation":
        """Returns one table as a DuckDB relation, without reading it yet."""
        return connection.read_parquet([str(path) for path in self.files(prefix)])

    def problems(self, *, check_hashes: bool = False) -> list[Problem]:
        """Returns what differs from the manifest: missing files and sizes always, hashes with `check_hashes`."""
        return [p for entry in self.manifest.files if (p := _check(self.folder / entry.path, entry, check_hashes))]


def _check(path: Path, entry: FileEntry, check_hashes: bool) -> Problem | None:
    if not path.is_file():
        return Problem(path, "is missing")
    size = path.stat().st_size
    if size != entry.size:
        return Problem(path, f"has {size} bytes, the manifest says {entry.size}")
    if check_hashes and (found := sha256_file(path)) != entry.sha256:
        return Problem(path, f"has sha256 {found}, the manifest says {entry.sha256}")
    return None


def describe_file(folder: Path, name: str) -> FileEntry:
    """Returns the manifest's entry for the file `name` in a dataset's folder."""
    path = folder / name
    rows = count_rows(path) if name.endswith(".parquet") else None
    return FileEntry(path=name, size=path.stat().st_size, sha256=sha256_file(path), rows=rows)


def sha256_file(path: Path) -> str:
    """Returns the sha256 of a file, in hexadecimal."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
