"""The flow of the organization task: how close do trees of references come to the mind-maps of a survey's authors?"""

from pathlib import Path

from prefect import flow

from flows.jobs.artifacts import leave_built, leave_trees
from flows.jobs.as_task import task_pipeline
from flows.pipeline.machine import Machine
from flows.pipeline.stages import StageControl
from flows.pipeline.walk import Slots
from schemas.settings import OrganizationSettings


@flow(name="organization")
def organization(
    edition: str | None = None,
    settings: OrganizationSettings = OrganizationSettings(),
    maps: Path | None = None,
    control: StageControl = StageControl(),
    machine: Machine | None = None,
) -> Slots:
    """Builds mind-maps of an edition's topics and shows how close they come.

    Args:
        edition: Its name; may be empty when there is only one.
        settings: Which builders, of which references.
        maps: JSON lines of transcribed mind-maps; empty: those that the edition has.
        control: What is executed.
        machine: Folders and resources; as the worker's environment says when empty.
    """
    pipeline = task_pipeline(machine, edition, control)
    built = pipeline.organize(settings, maps) | pipeline.write_report()
    leave_built(pipeline, built)
    leave_trees(pipeline, built)
    return built
