"""`arena deploy`: sets up pools, limits, deployments and automations on a Prefect server."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from flows.commands.options import FLAT
from flows.commands.terminal import show_json, show_rows, show_text
from flows.server.local_server import prefect_api
from flows.server.settings import DeploySettings, find_installation
from schemas.errors import UsageError

if TYPE_CHECKING:
    from flows.server.deploy import Change


def deploy(
    *,
    settings: Annotated[DeploySettings | None, FLAT] = None,
    installation: Path | None = None,
    overwrite: tuple[str, ...] = (),
    json: bool = False,
) -> None:
    """Set up pools, limits, deployments and automations on the server at PREFECT_API_URL; safe to repeat.

    New pools have the type process. Existing pools are not changed: create pools of another type first. What people
    have set in the UI is kept, and shown where the installation says something else.

    Args:
        installation: Installation file: parameters, schedules and pools of jobs, and the values of these options; left
            out: the file that ARENA_INSTALLATION names, if any.
        overwrite: Jobs, for example weekly, that get the installation's values whatever people have set in the UI.
        json: Print the result as JSON.
    """
    wanted = find_installation(settings, installation)
    if not os.environ.get("PREFECT_API_URL"):
        raise UsageError("PREFECT_API_URL is not set; set it, or start a server on this machine: arena ui")
    with prefect_api(Path()):
        from flows.server.deploy import deploy_to_server

        changes = deploy_to_server(wanted, overwrite=overwrite)
    _show(changes, json)


def _show(changes: Sequence["Change"], json: bool) -> None:
    rows = [change._asdict() for change in changes]
    if json:
        show_json(rows)
        return
    kept = [(change.name, change.kept) for change in changes if change.kept]
    if done := [row for row in rows if row["what"] != "unchanged"]:
        show_rows([{name: row[name] for name in ("kind", "name", "what")} for row in done])
    for name, what in kept:
        show_text(f"{name} keeps what was set in the UI: {what}; to change that: arena deploy --overwrite {name}")
    show_text(f"{len(done)} of {len(rows)} changed")
