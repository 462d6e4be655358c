"""What differs between installations: the settings of `arena deploy`, and the installation file that holds them.

The file is YAML, named by ARENA_INSTALLATION. It is the one source of what is deployed: an option of `arena deploy`
counts for one call, and what people saved in the UI is kept and shown as a difference.
"""

import os
from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from schemas.errors import UsageError
from schemas.settings import Settings

INSTALLATION = "ARENA_INSTALLATION"
"""The variable that names the installation file."""


class Schedule(BaseModel):
    """When a deployment runs by itself: a cron line in local time, so that daylight saving time does not move it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cron: str = Field(pattern=r"^\S+( \S+){4}$", description="Minute, hour, day, month, day of the week.")
    timezone: str = Field(description="IANA name, for example America/New_York.")

    @field_validator("cron")
    @classmethod
    def _is_cron(cls, line: str) -> str:
        from prefect.client.schemas.schedules import CronSchedule

        return CronSchedule(cron=line, timezone="UTC").cron

    @field_validator("timezone")
    @classmethod
    def _known(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (KeyError, ValueError) as error:
            raise ValueError(f"no time zone is named {name}") from error
        return name


class DeploySettings(Settings):
    """What differs between installations."""

    gpu_pool: Literal["cpu", "gpu"] = Field(
        default="gpu", description="Pool for jobs that need a GPU; choose cpu when no worker has one."
    )
    model_stages: int = Field(
        default=2,
        ge=1,
        le=1000,
        description="How many stages may call a language model at the same time, on all machines together.",
    )
    notify: str | None = Field(
        default=None,
        pattern=r"^[a-z0-9-]+/[a-z0-9-]+$",
        description="Notification block, as type/name (slack-webhook/ops), for published editions and for runs that "
        "failed, crashed or are late.",
    )
    site: str | None = Field(
        default=None,
        description="Folder that the weekly job writes the site of leaderboards to, as workers see it; left out: none.",
    )


class JobSettings(Settings):
    """What an installation sets for one job."""

    parameters: dict[str, Any] = Field(
        default_factory=dict, description="Values of the job's form, as the form writes them. No secrets."
    )
    schedule: Schedule | Literal["none"] | None = Field(
        default=None, description="When the job runs by itself; none: never; left out: as the catalogue says."
    )
    pool: str | None = Field(
        default=None, pattern=r"^[a-z0-9][a-z0-9-]*$", description="Work pool; left out: as the catalogue says."
    )


class Installation(DeploySettings):
    """An installation file."""

    jobs: dict[str, JobSettings] = Field(default_factory=dict, description="What is set, by the name of the job.")


def read_installation(path: Path) -> Installation:
    """Reads an installation file.

    Raises:
        UsageError: There is no such file, or it holds something else; the message names the field.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        what = " ".join(str(error).split())
        raise UsageError(f"installation file {path}: {what}; nothing was deployed") from error
    try:
        return Installation.model_validate(content or {})
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'the file'}: {e['msg']}" for e in error.errors())
        raise UsageError(f"installation file {path}: {wrong}; nothing was deployed") from error


def find_installation(settings: DeploySettings | None = None, path: Path | None = None) -> Installation:
    """Returns what to deploy: the installation file, with the options of a command in place of its values.

    Args:
        settings: Options of a command; those that were not given do not count.
        path: The file; None: that of ARENA_INSTALLATION; without one: the defaults.

    Raises:
        UsageError: The file cannot be read, or is wrong.
    """
    named = path or (Path(value) if (value := os.environ.get(INSTALLATION, "").strip()) else None)
    found = read_installation(named) if named else Installation()
    return found.model_copy(update=settings.model_dump(exclude_unset=True)) if settings else found
