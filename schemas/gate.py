"""What a release looks like, and whether it looks like the ones before it."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from schemas.fetching import UpstreamDataset
from schemas.identifiers import Digest, ReleaseId
from schemas.settings import Settings

JsonType = Literal["string", "integer", "number", "boolean", "array", "object"]


class GateSettings(Settings):
    """How closely a release is looked at, and how far it may be from what was expected."""

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
    """Base of what is written beside the mirror: frozen, nothing unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class FieldProfile(_Record):
    """A field of the looked-at records: how many fill it (not null, not empty), and with values of which types."""

    filled: int
    types: dict[JsonType, int]

    @property
    def type(self) -> JsonType | None:
        """The type of most values; None when there are none."""
        return max(self.types, key=self.types.__getitem__, default=None)


class DatasetProfile(_Record):
    """One dataset of a release.

    `rows` are counted where all files were read (`exact`), else those of the files read, scaled by bytes. `sampled` are
    the lines looked at, `unreadable` those of them that are no JSON object, `duplicates` those whose primary key came
    before. `fields` has the fields of a record and, as `outer.inner`, of the objects in it. `kept` is the filter it was
    fetched with.
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
        """Share of the records that fill a field."""
        records = self.sampled - self.unreadable
        return self.fields[field].filled / records if field in self.fields and records else 0.0


class ReleaseProfile(_Record):
    """A release; `source` changes when its files or what is looked at do."""

    release: ReleaseId
    source: Digest
    datasets: dict[UpstreamDataset, DatasetProfile]


class Finding(_Record):
    """Something that is not as expected; `refuses` says whether it keeps the release out."""

    refuses: bool = True
    dataset: str
    check: Literal["datasets", "files", "rows", "bytes", "fields", "types", "fill", "duplicates", "unreadable"]
    seen: str
    expected: str
    remedy: str


class Verdict(_Record):
    """What was found in a release against the earlier ones; `reason` is why a person accepted it all the same."""

    release: ReleaseId
    compared_with: tuple[ReleaseId, ...]
    findings: tuple[Finding, ...]
    reason: str | None = None

    @property
    def accepted(self) -> bool:
        """Whether the release may be used."""
        return self.reason is not None or not any(finding.refuses for finding in self.findings)
