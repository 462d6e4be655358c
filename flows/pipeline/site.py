"""Where reports and the site of the leaderboards are served over HTTP."""

import os

from schemas.errors import UsageError

SITE_URL = "ARENA_SITE_URL"
"""The variable that holds the address of `arena serve --pages`, as browsers reach it."""


def site_url() -> str | None:
    """Returns the address under which browsers reach what `arena serve --pages` serves; None: nothing is served.

    Raises:
        UsageError: The variable holds no address.
    """
    address = os.environ.get(SITE_URL, "").strip().rstrip("/")
    if address and not address.startswith(("http://", "https://")):
        raise UsageError(f"{SITE_URL}={address}: expected an address that begins with http:// or https://")
    return address or None


def report_link(site: str, edition: str) -> str:
    """Returns the address of an edition's report."""
    return f"{site}/reports/{edition}/"
