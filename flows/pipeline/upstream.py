"""How a command reaches Semantic Scholar: the key, and the folder through which processes agree on when to call."""

import os
from pathlib import Path

from pydantic import Field, SecretStr

from schemas.fetching import ApiSettings
from tasks.release.client import DatasetsApi


def _state() -> Path:
    home = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(os.environ.get("ARENA_STATE") or Path(home, "research-arena").expanduser())


class Upstream(ApiSettings):
    """Where Semantic Scholar is; the key is never an option, it stands in the environment as S2_API_KEY."""

    state: Path = Field(
        default_factory=_state,
        description="Folder through which all processes of a machine keep the pace (environment: ARENA_STATE).",
    )


def open_api(upstream: Upstream | None = None) -> DatasetsApi:
    """The datasets API, with the key from the environment; to be used as a context."""
    upstream = upstream or Upstream()
    key = os.environ.get("S2_API_KEY", "").strip()
    return DatasetsApi(SecretStr(key) if key else None, upstream, upstream.state)
