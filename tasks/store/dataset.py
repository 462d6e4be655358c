"""A published dataset, read-only."""

import os
import shutil
from functools import cached_property
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Self

from schemas.errors import StoreError
from schemas.manifest import STORE_FORMAT, FileEntry, Manifest, Ref, content_digest
from tasks.store.hashes import Problem, check_size, find_problems, sha256_file
from tasks.store.whole_files import read_record

if TYPE_CHECKING:  # most worker processes need no DuckDB, and commands that read manifests alone need neither
    import duckdb
    import pyarrow as pa

MAIN = "part"
"""File prefix of a dataset's main table; a side table's prefix is its name."""


OPENED = ".opened"
"""Folder of a store with links to datasets' files: see `Dataset.linked`."""


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
        remedy = f"delete {self.folder} and run: arena rerun {self.folder.parent.name}"
        found = read_record(path, Manifest, remedy)
        if found.format > STORE_FORMAT:
            raise StoreError(f"{path}: format {found.format}, this version reads up to {STORE_FORMAT}; update")
        if content_digest(found.files) != found.digest:
            raise StoreError(f"{path}: is damaged (its files do not have the digest {found.digest[:12]}); {remedy}")
        return found

    @property
    def ref(self) -> Ref:
        """The dataset's name."""
        return self.manifest.ref

    def input(self, name: str) -> "Dataset | None":
        """Returns the dataset that this one was made from under a name; None if there was none, or it was deleted."""
        ref = self.manifest.inputs.get(name)
        return self._beside(ref) if isinstance(ref, Ref) else None

    def _beside(self, ref: Ref) -> "Dataset | None":
        """Returns a dataset of the same store; None if it has no such dataset."""
        dataset = Dataset(self.folder.parents[1] / ref.stage / ref.key)
        return dataset if (dataset.folder / "manifest.json").is_file() else None

    def ancestors(self) -> dict[Ref, "Dataset"]:
        """Returns every dataset that this one was made from, nearest first, without those that were deleted since."""
        found: dict[Ref, Dataset] = {}
        waiting = [entry for entry in self.manifest.inputs.values() if isinstance(entry, Ref)]
        while waiting:
            ref = waiting.pop(0)
            if ref not in found and (dataset := self._beside(ref)):
                found[ref] = dataset
                waiting += [entry for entry in dataset.manifest.inputs.values() if isinstance(entry, Ref)]
        return found

    @cached_property
    def damage(self) -> list[Problem]:
        """The files that differ from the manifest, by hash; what was not touched since it was hashed is not read."""
        return find_problems(self.folder, self.manifest)

    @property
    def whole(self) -> bool:
        """Whether no file is damaged: earlier datasets that are not whole are passed over."""
        return not self.damage

    def require_whole(self) -> Self:
        """Returns the dataset when its content is as it was built.

        Raises:
            StoreError: A file is damaged; the message names the dataset and the command that builds it again.
        """
        if self.damage:
            path, what = self.damage[0]
            raise StoreError(
                f"dataset {self.folder.parent.name}/{self.folder.name} is damaged: {path.name} {what}; {self._remedy()}"
            )
        return self

    def _remedy(self) -> str:
        editions = (self.folder.parents[1] / "editions").glob("*.json")
        names = sorted(path.stem for path in editions if self.folder.name.encode() in path.read_bytes())
        if names:
            return f"run: arena rerun --damaged --edition {names[0]}"
        return f"no edition has it: delete {self.folder} and run the same command again"

    def path(self, name: str) -> Path:
        """Returns the full path of one file of the dataset; raises StoreError when the dataset is damaged."""
        return self.require_whole().folder / name

    def linked(self, name: str) -> Path:
        """Returns a folder of links to the files of one of the dataset's folders, for libraries that write beside them.

        Such a library (tantivy, with its lock file) may write at any time after an index was opened, even after it was
        dropped, so a temporary folder could not be deleted safely. The links are made once, in `ROOT/.opened`, shared
        by all processes, and collected after their dataset. If the root is read-only, they are made in a temporary
        folder that is left to the operating system.
        """
        source = self.path(name)
        folder = self.folder.parents[1] / OPENED / f"{self.folder.name}-{self.manifest.digest[:16]}-{name}"
        if folder.is_dir():
            return folder
        try:
            folder.parent.mkdir(exist_ok=True)
            draft = Path(mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
        except OSError:
            draft = folder = Path(mkdtemp(prefix="arena-"))
        for path in source.iterdir():
            (draft / path.name).symlink_to(os.path.relpath(path, draft))
        try:
            draft.replace(folder)
        except OSError:  # another process was faster: its folder has the same links, and nobody has opened the draft
            shutil.rmtree(draft)
        return folder

    def files(self, prefix: str = MAIN) -> list[Path]:
        """Parquet files of one table, sorted by name: `part` for the main table, else a side table's name."""
        names = [f.path for f in self.manifest.files if f.path.startswith(f"{prefix}-") and f.path.endswith(".parquet")]
        return [self.path(name) for name in sorted(names)]

    def table(self, prefix: str = MAIN, columns: list[str] | None = None) -> "pa.Table":
        """Reads one table into memory; meant for tables that are small."""
        import pyarrow as pa

        from tasks.store.parquet import read_tables

        return pa.concat_tables(read_tables(self.files(prefix), columns))

    def relation(self, connection: "duckdb.DuckDBPyConnection", prefix: str = MAIN) -> "duckdb.DuckDBPyRelation":
        """Returns one table as a DuckDB relation, without reading it yet."""
        return connection.read_parquet([str(path) for path in self.files(prefix)])

    def problems(self, *, check_hashes: bool = False) -> list[Problem]:
        """Returns what differs from the manifest: missing files and sizes; with `check_hashes`, every byte is read."""
        if check_hashes:
            return find_problems(self.folder, self.manifest, reread=True)
        return [p for entry in self.manifest.files if (p := check_size(self.folder / entry.path, entry))]


def describe_file(folder: Path, name: str) -> FileEntry:
    """Returns the manifest's entry for the file `name` in a dataset's folder."""
    from tasks.store.parquet import count_rows

    path = folder / name
    rows = count_rows(path) if name.endswith(".parquet") else None
    return FileEntry(path=name, size=path.stat().st_size, sha256=sha256_file(path), rows=rows)
