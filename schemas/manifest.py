"""What is written beside a dataset and beside an edition, so that any number can be walked back to release files."""

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from schemas.errors import StoreError
from schemas.identifiers import STAGE_PATTERN, Digest, Key, StageName
from schemas.messages import describe
from schemas.settings import Settings

STORE_FORMAT = 2
"""Raised when the layout of a store changes so that older code cannot read it. 2: records have seals."""

FILE_FORMAT = 2
"""Part of every key; raised when the files of all stages are written differently. 2: Parquet pages have checksums."""

ASIDE = "quarantine-"
"""Files whose names begin so tell of the lines that were read, not of what the dataset holds."""


class Ref(BaseModel, frozen=True, extra="forbid"):
    """A dataset by name: what stages pass to each other instead of data."""

    stage: StageName = Field(pattern=STAGE_PATTERN)
    key: Key
    digest: Digest


class FileEntry(BaseModel):
    """One file of a dataset: path relative to it, size in bytes, sha256, rows where it is Parquet."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str
    size: int
    sha256: str
    rows: int | None = None


class Counts(BaseModel):
    """What a stage did with what it read; `dropped` and `notes` are by reason."""

    model_config = ConfigDict(extra="forbid")

    read: int = 0
    kept: int = 0
    dropped: dict[str, int] = Field(default_factory=dict)
    failed: int = 0
    notes: dict[str, float] = Field(default_factory=dict)

    def add(self, other: "Counts") -> None:
        """Adds another shard's counts to these."""
        self.read += other.read
        self.kept += other.kept
        self.failed += other.failed
        for reason, number in other.dropped.items():
            self.dropped[reason] = self.dropped.get(reason, 0) + number
        for name, value in other.notes.items():
            self.notes[name] = self.notes.get(name, 0) + value


class ShardEntry(BaseModel):
    """A shard that another build may take over: the key of all that decides its files, their paths, its counts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: Digest
    files: tuple[str, ...]
    counts: Counts


class ReleaseEntry(BaseModel):
    """Release files as an input of a build."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    release: str
    dataset: str
    files: int
    digest: Digest
    size: int = 0
    """Bytes of all files; 0 in manifests that do not say it."""


S = TypeVar("S", bound=Settings, covariant=True)


class StageOf(Protocol[S]):
    """A stage with settings of type `S`."""

    @property
    def name(self) -> StageName:
        """The stage's name."""
        ...

    @property
    def settings(self) -> type[S]:
        """Type of its settings."""
        ...


class Usage(BaseModel):
    """What a stage used.

    Attributes:
        cpu_seconds: Processor time of all processes.
        peak_bytes: Peak memory without mapped files, of the stage's process and then of each worker.
        written_bytes: Bytes written to disk, files that were deleted again included.
        processes: Number of worker processes that the stage was allowed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    cpu_seconds: float
    peak_bytes: tuple[int, ...]
    written_bytes: int
    processes: int


class Manifest(BaseModel):
    """Everything about one dataset. Only `files` decides its digest; times and versions are for people.

    `shards` holds those that can be taken over, `shards_taken` is how many were. `mended` is how often a damaged copy
    of the dataset was replaced, `inputs_mended` the same of its inputs when it was built: what was made of a damaged
    copy may be wrong.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = STORE_FORMAT
    file_format: int = 1
    stage: StageName = Field(pattern=STAGE_PATTERN)
    version: int
    key: Key
    digest: Digest
    parameters: dict[str, Any]
    inputs: dict[str, Ref | ReleaseEntry]
    files: tuple[FileEntry, ...]
    counts: Counts
    started: datetime
    seconds: float
    usage: Usage | None = None
    shards_resumed: int
    shards_taken: int = 0
    shards: dict[str, ShardEntry] = Field(default_factory=dict)
    packages: dict[str, str]
    git_commit: str | None
    mended: int = 0
    inputs_mended: dict[str, int] = Field(default_factory=dict)

    @property
    def ref(self) -> Ref:
        """The name under which other stages refer to this dataset."""
        return Ref(stage=self.stage, key=self.key, digest=self.digest)

    @property
    def tag(self) -> str:
        """Name of the run, or of the system whose trees or answers the dataset holds, by whichever stage.

        Raises:
            StoreError: The dataset is of a stage without such names.
        """
        tag = self.parameters.get("tag")
        if not isinstance(tag, str):
            raise StoreError(f"dataset {self.stage}/{self.key}: expected a run, trees or answers, which have a tag")
        return tag

    def settings(self, stage: StageOf[S]) -> S:
        """Returns the settings that the dataset was made with; a setting added since has its default.

        Raises:
            StoreError: The dataset is of another stage, or was made with settings that this version does not know.
        """
        if self.stage != stage.name:
            raise StoreError(f"dataset {self.stage}/{self.key}: expected a dataset of stage {stage.name}")
        try:
            return stage.settings.model_validate(self.parameters)
        except ValidationError as error:
            raise StoreError(
                f"dataset {self.stage}/{self.key}: this version does not understand the settings it was made with "
                f"({describe(error)}); build it again"
            ) from error


class EditionManifest(BaseModel):
    """A named set of datasets: release, corpus, indexes, runs, scores. Immutable once published."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = STORE_FORMAT
    name: str
    release: str
    published: datetime | None = None
    slots: dict[str, Ref] = Field(default_factory=dict)


class Fingerprint(NamedTuple):
    """What a stage is asked for; its hash is the key."""

    stage: StageName
    version: int
    parameters: Mapping[str, Any]
    inputs: Mapping[str, Digest]

    @property
    def key(self) -> Key:
        """sha256 of the canonical JSON (sorted keys, no blanks), first 32 hexadecimal digits."""
        text = json.dumps(
            [self.stage, self.version, FILE_FORMAT, dict(self.parameters), dict(self.inputs)],
            sort_keys=True,
            separators=(",", ":"),
        )
        return Key(hashlib.sha256(text.encode()).hexdigest()[:32])


def content_digest(files: tuple[FileEntry, ...]) -> Digest:
    """Hash of the sorted (path, size, sha256) of a dataset's files.

    What was put aside does not count: a release read whole and the same release made by diffs hold the same records,
    but not the same lines.
    """
    lines = sorted(f"{file.path} {file.size} {file.sha256}" for file in files if not file.path.startswith(ASIDE))
    return Digest(hashlib.sha256("\n".join(lines).encode()).hexdigest())
