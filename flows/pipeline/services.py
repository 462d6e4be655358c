"""Reads from the environment how this machine speaks to search services on the web."""

import os
from typing import TYPE_CHECKING

from pydantic import SecretStr

from flows.pipeline.secrets import learn_environment

if TYPE_CHECKING:
    from tasks.search.engine import WebAccess

API_KEYS = {
    "semantic_scholar": "S2_API_KEY",
    "openalex": "ARENA_OPENALEX_API_KEY",
    "url": "ARENA_URL_ENGINE_KEY",
}
"""The variable that holds an engine's API key."""


def web_access() -> "WebAccess":
    """Returns the API keys that the environment holds, and the address that services may write to (`ARENA_MAILTO`)."""
    from tasks.search.engine import WebAccess  # only the search benchmark needs it

    learn_environment()
    keys = {engine: SecretStr(value) for engine, name in API_KEYS.items() if (value := os.environ.get(name))}
    return WebAccess(mailto=os.environ.get("ARENA_MAILTO", ""), keys=keys)
