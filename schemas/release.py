"""A release on disk: datasets, files, and the digest that identifies their content."""

import hashlib
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from schemas.identifiers import DatasetName, Digest, ReleaseId


class SourceFile(BaseModel):
    """One file of a dataset: name inside the dataset's folder, size in bytes, sha256 of the stored bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    size: int
    sha256: str


class ReleaseDataset(BaseModel):
    """One dataset of a release in a local mirror: an input of the first stages."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    release: ReleaseId
    dataset: DatasetName
    directory: Path
    files: tuple[SourceFile, ...]

    @property
    def digest(self) -> Digest:
        """Hash of the sorted (name, sha256, size) of the files, independent of their folder.

        Names matter: of two records with the same key, the one in the later file wins.
        """
        lines = sorted(f"{file.name} {file.sha256} {file.size}" for file in self.files)
        return Digest(hashlib.sha256("\n".join([self.dataset, *lines]).encode()).hexdigest())
