"""How this machine speaks to search services on the web."""

import os

from pydantic import SecretStr

from tasks.search.engine import WebAccess

KEYS = {
    "semantic_scholar": "ARENA_S2_API_KEY",
    "openalex": "ARENA_OPENALEX_API_KEY",
    "url": "ARENA_URL_ENGINE_KEY",
}
MAILTO = "ARENA_MAILTO"


def web_access() -> WebAccess:
    """API keys (`ARENA_S2_API_KEY`, `ARENA_OPENALEX_API_KEY`, `ARENA_URL_ENGINE_KEY`) and an address that services may
    write to (`ARENA_MAILTO`), as far as the environment has them.
    """
    keys = {engine: SecretStr(value) for engine, name in KEYS.items() if (value := os.environ.get(name))}
    return WebAccess(mailto=os.environ.get(MAILTO, ""), keys=keys)
