"""Profiles of releases, and the verdict on whether a release resembles the earlier ones."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from schemas.fetching import UpstreamDataset
from schemas.identifiers import Digest, ReleaseId
from schemas.settings import Settings

JsonType = Literal["string", "integer", "number", "boolean", "array", "object"]


class GateSettings(Settings):
    """How much of a release is sampled, and how far it may deviate from the earlier ones."""

    sample_files: int = Field(
        default=8, ge=1, description="Files read of each dataset: all, or else the first, the last and some between."
    )
    sample_records: int = Field(
        default=20_000, ge=100, description="Records of each such file whose fields are looked at; all are counted."
    )
    history: int = Field(default=8, ge=1, description="Earlier accepted releases to compare with.")
    tolerance: float = Field(
        default=0.1, gt=0, le=1, description="Relative distance from the trend of three or more earlier releases."
    )
    least_ratio: float = Field(default=0.9, gt=0, le=1, description="Least size against the last release.")
    most_ratio: float = Field(default=1.3, ge=1, description="Largest size against the last release.")
    fill_drop: float = Field(
        default=0.5, gt=0, le=1, description="Relative loss of filled values at which a field has collapsed."
    )
    rare: float = Field(
        default=0.05, ge=0, lt=1, description="Share of filled values below which a field is not looked at."
    )
    duplicates: float = Field(default=0.01, ge=0, lt=1, description="Largest share of repeated primary keys.")
    unreadable: float = Field(default=0.05, ge=0, lt=1, description="Largest share of lines that are no records.")
    few: int = Field(default=10, ge=0, description="Repeated keys or unreadable lines that are never too many.")


class _Record(BaseModel):
    """Base class of the records beside the mirror: frozen, without unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class FieldProfile(_Record):
    """A field of the sampled records: how many have a value (not null, not empty), and the types of the values."""

    filled: int
    types: dict[JsonType, int]

    @property
    def type(self) -> JsonType | None:
        """The most frequent type; None if there are no values."""
        return max(self.types, key=self.types.__getitem__, default=None)


class DatasetProfile(_Record):
    """One dataset of a release.

    `rows` is counted if all files were read (`exact`), else scaled by bytes from the files read. `sampled` counts the
    sampled lines, `unreadable` those that are not a JSON object, and `duplicates` those whose primary key occurred
    before. `fields` has the fields of a record and, as `outer.inner`, of nested objects. `kept` is the filter that the
    dataset was fetched with.
    """

    files: int
    bytes: int
    rows: int
    exact: bool
    sampled: int
    unreadable: int
    duplicates: int
    fields: dict[str, FieldProfile]
    kept: str | None = None

    def fill(self, field: str) -> float:
        """Returns the share of the records that have a value in a field."""
        records = self.sampled - self.unreadable
        return self.fields[field].filled / records if field in self.fields and records else 0.0


class ReleaseProfile(_Record):
    """Profile of a release; `source` changes with its files and with the sampling."""

    release: ReleaseId
    source: Digest
    datasets: dict[UpstreamDataset, DatasetProfile]


class Finding(_Record):
    """A deviation from what was expected; `refuses` says whether it refuses the release."""

    refuses: bool = True
    dataset: str
    check: Literal["datasets", "files", "rows", "bytes", "fields", "types", "fill", "duplicates", "unreadable"]
    seen: str
    expected: str
    remedy: str


class Verdict(_Record):
    """The findings on a release compared with earlier ones; `reason` says why a person accepted it anyway."""

    release: ReleaseId
    compared_with: tuple[ReleaseId, ...]
    findings: tuple[Finding, ...]
    reason: str | None = None

    @property
    def accepted(self) -> bool:
        """Returns whether the release may be used."""
        return self.reason is not None or not any(finding.refuses for finding in self.findings)
