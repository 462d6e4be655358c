"""Settings for reaching Semantic Scholar: the API key, and the folder that processes share to keep the request rate."""

import os
from pathlib import Path

from pydantic import Field, SecretStr

from flows.pipeline.secrets import learn_environment
from schemas.fetching import ApiSettings
from tasks.release.client import DatasetsApi


def _state() -> Path:
    home = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(os.environ.get("ARENA_STATE") or Path(home, "research-arena").expanduser())


class Upstream(ApiSettings):
    """Where Semantic Scholar is. The key is never an option: it is read from S2_API_KEY."""

    state: Path = Field(
        default_factory=_state,
        description="Folder that all processes of a machine share to keep the request rate (environment: ARENA_STATE).",
    )


def open_api(upstream: Upstream | None = None) -> DatasetsApi:
    """Returns the datasets API as a context manager, with the key from the environment."""
    learn_environment()
    upstream = upstream or Upstream()
    key = os.environ.get("S2_API_KEY", "").strip()
    return DatasetsApi(SecretStr(key) if key else None, upstream, upstream.state)
