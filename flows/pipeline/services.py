"""Reads from the environment how this machine speaks to search services on the web."""

import os
from typing import TYPE_CHECKING

from pydantic import SecretStr, ValidationError

from flows.pipeline.secrets import learn_environment
from schemas.errors import UsageError
from schemas.messages import describe

if TYPE_CHECKING:
    from tasks.search.engine import WebAccess

PATIENCE = "ARENA_SEARCH_PATIENCE_S"

API_KEYS = {
    "semantic_scholar": "S2_API_KEY",
    "openalex": "ARENA_OPENALEX_API_KEY",
    "url": "ARENA_URL_ENGINE_KEY",
}
"""The variable that holds an engine's API key."""


def web_access() -> "WebAccess":
    """Returns what the environment says: API keys, the address that services may write to, and patience in seconds."""
    from tasks.search.engine import WebAccess  # only the search benchmark needs it
    from tasks.search.web_engine import WebLimits

    learn_environment()
    keys = {engine: SecretStr(value) for engine, name in API_KEYS.items() if (value := os.environ.get(name))}
    patience = {"patience_s": value} if (value := os.environ.get(PATIENCE)) else {}
    try:
        limits = WebLimits.model_validate_strings(patience)
    except ValidationError as error:
        raise UsageError(f"the environment ({PATIENCE}) says no patience: {describe(error)}; correct it") from None
    return WebAccess(mailto=os.environ.get("ARENA_MAILTO", ""), keys=keys, limits=limits)
