"""What forms let people choose from on this machine, and whether a form takes given values."""

import os
from typing import Any

from prefect.utilities.schema_tools.validation import validate
from pydantic import TypeAdapter, ValidationError

import arena
from flows.jobs.forms import Schema, stored_choices
from flows.pipeline.machine import Machine
from flows.server.deployments import Job
from schemas.errors import MissingDependency

PLUGINS = {
    "baseline": ("baseline",),
    "builder": ("builder",),
    "survey selector": ("survey selector",),
    "AirQA system": ("AirQA system",),
    "system": ("baseline", "builder"),
}
"""The kinds of plug-ins whose names a list of choices holds."""


def choices_here() -> dict[str, list[str]]:
    """Returns the choices of forms: plug-ins that are installed here, and editions and releases of the folders here.

    Folders count only where ARENA_ROOT and ARENA_RELEASES name them: workers may have others than this machine.
    """
    machine = Machine()
    stored = stored_choices(machine.root, machine.releases)
    named = {"editions": "ARENA_ROOT", "releases": "ARENA_RELEASES"}
    found = {name: values for name, values in stored.items() if os.environ.get(named[name])}
    for name, kinds in PLUGINS.items():
        try:
            found[name] = sorted({plugin.name for kind in kinds for plugin in arena.plugins(kind)})
        except MissingDependency:
            continue  # workers may have what is missing here: any name is taken
    return found


def check_parameters(job: Job, parameters: dict[str, Any], form: Schema) -> str:
    """Returns why a form or a flow refuses values, or an empty text."""
    refused = validate(parameters, form, ignore_required=True)
    wrong = [f"{error.json_path.removeprefix('$.')}: {error.message}" for error in refused]
    kinds = job.load().fn.__annotations__
    wrong += [f"{name}: there is no such parameter" for name in parameters if name not in kinds]
    for name, value in () if wrong else parameters.items():
        try:
            TypeAdapter(kinds[name]).validate_python(value)
        except ValidationError as error:
            wrong += [f"{'.'.join([name, *map(str, e['loc'])])}: {e['msg']}" for e in error.errors()]
    return "; ".join(wrong)
