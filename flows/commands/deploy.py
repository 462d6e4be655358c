"""`arena deploy`: sets up pools, limits, deployments and automations on a Prefect server."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from flows.commands.options import FLAT
from flows.commands.terminal import show_json, show_rows, show_text
from flows.server.local_server import prefect_api
from flows.server.settings import DeploySettings
from schemas.errors import UsageError

if TYPE_CHECKING:
    from flows.server.deploy import Change


def deploy(*, settings: Annotated[DeploySettings | None, FLAT] = None, json: bool = False) -> None:
    """Set up pools, limits, deployments and automations on the server at PREFECT_API_URL; safe to repeat.

    New pools have the type process. Existing pools are not changed: create pools of another type first.

    Args:
        json: Print the result as JSON.
    """
    if not os.environ.get("PREFECT_API_URL"):
        raise UsageError("PREFECT_API_URL is not set; set it, or start a server on this machine: arena ui")
    with prefect_api(Path()):
        from flows.server.deploy import deploy_to_server

        changes = deploy_to_server(settings)
    _show(changes, json)


def _show(changes: Sequence["Change"], json: bool) -> None:
    rows = [change._asdict() for change in changes]
    if json:
        show_json(rows)
        return
    if done := [row for row in rows if row["what"] != "unchanged"]:
        show_rows(done)
    show_text(f"{len(done)} of {len(rows)} changed")
