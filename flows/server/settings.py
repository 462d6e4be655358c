"""Settings of `arena deploy`: what differs between installations."""

from typing import Literal

from pydantic import Field

from schemas.settings import Settings


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
        description="Notification block, as type/name (slack-webhook/ops), for published editions and failures.",
    )
