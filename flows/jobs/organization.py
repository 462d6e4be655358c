"""The flow of the organization task: how close do the built trees come to the mind-maps of the surveys' authors?"""

from pathlib import Path

from prefect import flow

from flows.jobs.artifacts import publish_build_artifact, publish_tree_scores
from flows.jobs.as_task import task_pipeline
from flows.pipeline.machine import Machine
from flows.pipeline.stages import StageControl
from flows.pipeline.walk import Slots
from schemas.identifiers import EditionName
from schemas.settings import OrganizationSettings


@flow(name="organization")
def organization(
    edition: EditionName | None = None,
    settings: OrganizationSettings = OrganizationSettings(),
    maps: Path | None = None,
    control: StageControl = StageControl(),
    machine: Machine | None = None,
) -> Slots:
    """Builds a mind-map for each topic and shows how close it comes to that of the survey's authors.

    Args:
        edition: Name of the edition; may be empty when there is only one.
        settings: Which builders run, and which references they arrange.
        maps: JSON lines of transcribed mind-maps; empty: the edition's own.
        control: Which stages execute.
        machine: Folders and resources; empty: as the worker's environment says.
    """
    pipeline = task_pipeline(machine, edition, control)
    built = pipeline.organize(settings, maps) | pipeline.write_report()
    publish_build_artifact(pipeline, built)
    publish_tree_scores(pipeline, built)
    return built
