"""What differs from one installation of the deployments to another."""

from typing import Literal

from pydantic import Field

from schemas.settings import Settings


class DeploySettings(Settings):
    """Choices of an installation."""

    gpu_pool: Literal["cpu", "gpu"] = Field(
        default="gpu", description="Pool of the GPU's jobs; cpu where no worker has a GPU."
    )
    model_stages: int = Field(
        default=2,
        ge=1,
        le=1000,
        description="How many stages may ask a language model at the same time, on all machines together.",
    )
    notify: str | None = Field(
        default=None,
        pattern=r"^[a-z0-9-]+/[a-z0-9-]+$",
        description="Notification block, as type/name (slack-webhook/ops): told of published editions and failures.",
    )
