"""The flow of the organization task: how close do the built trees come to the mind-maps of the surveys' authors?"""

from pathlib import Path

from prefect import flow

from flows.jobs.artifacts import publish_results
from flows.jobs.as_task import task_pipeline
from flows.jobs.parameters import NEWEST, Edition, Expert, choose
from flows.jobs.runs import begin_run
from flows.pipeline.machine import Machine
from flows.pipeline.stages import StageControl
from flows.pipeline.walk import Slots
from schemas.settings import OrganizationSettings


@flow(name="organization")
def organization(
    edition: Edition = NEWEST,
    settings: OrganizationSettings = OrganizationSettings(),
    maps: Path | None = None,
    control: StageControl = StageControl(),
    machine: Machine | None = None,
    expert: Expert | None = None,
) -> Slots:
    """Builds a mind-map for each topic and shows how close it comes to that of the survey's authors.

    Args:
        edition: Name of the edition, or newest: that of the newest release.
        settings: Which builders run, and which references they arrange.
        maps: JSON lines of transcribed mind-maps; empty: the edition's own.
        control: Which stages execute.
        machine: Folders and resources; empty: as the worker's environment says.
        expert: What a run rarely changes.
    """
    settings, control, machine = choose(settings, control, machine, expert)
    pipeline = task_pipeline(machine, edition, control)
    begin_run(f"organization {pipeline.edition}", walks=2)
    built = pipeline.organize(settings, maps) | pipeline.write_report()
    publish_results(pipeline, built, trees=True)
    return built
