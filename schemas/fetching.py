"""How releases are fetched from Semantic Scholar, and what is recorded beside the files."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field

from schemas.identifiers import RELEASE_PATTERN, ReleaseId
from schemas.release import SourceFile
from schemas.settings import Settings

UpstreamDataset = Literal["papers", "abstracts", "citations", "s2orc", "s2orc_v2"]
"""The datasets of Semantic Scholar that the pipeline reads."""


class RetrySettings(Settings):
    """How often and how long requests to a server are retried."""

    attempts: int = Field(default=8, ge=1, le=100, description="Tries that bring nothing, one after another.")
    backoff_s: float = Field(
        default=1.0, ge=0, description="Longest first wait in seconds; doubles with each try, the wait is drawn below."
    )
    backoff_limit_s: float = Field(default=60.0, ge=0, description="Longest wait in seconds of our own choice.")
    retry_after_limit_s: float = Field(
        default=600.0, ge=0, description="Longest wait in seconds that a server may ask for."
    )
    timeout_s: float = Field(default=60.0, gt=0, description="Seconds without a byte after which a server is given up.")


class ApiSettings(RetrySettings):
    """Address and rate limit of Semantic Scholar's datasets API."""

    url: str = Field(
        default="https://api.semanticscholar.org/datasets/v1",
        pattern=r"^https?://",
        description="Base of the datasets API; a mirror or a test has another.",
    )
    interval_s: float = Field(
        default=1.0, ge=0, description="Least seconds between two calls, of all processes of a machine together."
    )


class FetchSettings(Settings):
    """Which parts of a release are fetched, and how much bandwidth and disk that may use."""

    datasets: tuple[UpstreamDataset, ...] = Field(
        default=(),
        description="Datasets to fetch; empty: papers, abstracts, citations and the newest form of full texts.",
    )
    parallel: int = Field(default=4, ge=1, le=64, description="Files at a time.")
    bandwidth_mb_s: float | None = Field(default=None, gt=0, description="Most MB a second, of all files together.")
    spare_gib: float = Field(default=2.0, ge=0, description="Disk space that must stay free, in GiB.")
    restarts: int = Field(
        default=3, ge=0, description="Times that one file may begin anew because a server cannot go on in the middle."
    )
    rounds: int = Field(default=5, ge=1, description="Times that the list of files may be another after fetching it.")
    keep_ids: Path | None = Field(
        default=None,
        description="File of corpus ids, one a line: keep only their citations (as citing) and their full texts.",
    )
    full_text_only: bool = Field(default=False, description="Keep only records of full texts that hold a text.")
    kept_share: float = Field(
        default=1.0, gt=0, le=1, description="Share of a filtered dataset's bytes expected to stay, for the disk space."
    )


class _Record(BaseModel):
    """Base class of the records beside the files: frozen, without unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class FileState(_Record):
    """State of a file while it is fetched, stored beside it so that a killed download can continue.

    `path` is the link's path without its query, `size` the size of the whole file in bytes and `etag` the server's
    version. `done` is the local file after all of it was checked, and `kept` the filter that was applied to it.
    """

    path: str
    size: int
    etag: str | None = None
    kept: str | None = None
    done: SourceFile | None = None


class FetchedDataset(_Record):
    """Files of one folder, and the filter applied to their records (None: all records were kept)."""

    files: tuple[SourceFile, ...]
    kept: str | None = None


class FetchManifest(_Record):
    """`manifest.json` of a fetched release or diff: its folders by name, for example `papers` or `papers/updates`."""

    name: str
    datasets: dict[str, FetchedDataset]


class FetchReport(_Record):
    """Counts of a fetch: bytes on disk, bytes received, and incidents.

    `restarts` counts files that were started again, `refetched` damaged files, `renewed` file lists requested again
    because links had expired.
    """

    name: str
    folder: Path
    files: int
    bytes: int
    received: int = 0
    restarts: int = 0
    refetched: int = 0
    renewed: int = 0


class Diff(_Record):
    """Links to the changes of one dataset between two consecutive releases."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    from_release: ReleaseId = Field(pattern=RELEASE_PATTERN)
    to_release: ReleaseId = Field(pattern=RELEASE_PATTERN)
    update_files: Annotated[tuple[str, ...], FailFast()] = ()
    delete_files: Annotated[tuple[str, ...], FailFast()] = ()
