"""The flows of discovery and selection: one run of systems, shown by the measures of either task."""

from prefect import flow

from flows.jobs.artifacts import leave_built, leave_scores
from flows.jobs.as_task import task_pipeline
from flows.pipeline.machine import Machine
from flows.pipeline.stages import StageControl
from flows.pipeline.walk import Pipeline, Slots
from schemas.settings import RunSettings
from tasks.metrics.ranking import RankingTask


@flow(name="discovery")
def discovery(
    edition: str | None = None,
    settings: RunSettings = RunSettings(),
    control: StageControl = StageControl(),
    machine: Machine | None = None,
) -> Slots:
    """Runs systems on an edition's topics and shows recall and precision.

    Args:
        edition: Its name; may be empty when there is only one.
        settings: Which systems.
        control: What is executed.
        machine: Folders and resources; as the worker's environment says when empty.
    """
    return _run_systems("discovery", task_pipeline(machine, edition, control), settings)


@flow(name="selection")
def selection(
    edition: str | None = None,
    settings: RunSettings = RunSettings(),
    control: StageControl = StageControl(),
    machine: Machine | None = None,
) -> Slots:
    """Runs systems on an edition's topics and shows nDCG and MRR, under graded and under influential labels.

    Args:
        edition: Its name; may be empty when there is only one.
        settings: Which systems.
        control: What is executed.
        machine: Folders and resources; as the worker's environment says when empty.
    """
    return _run_systems("selection", task_pipeline(machine, edition, control), settings)


def _run_systems(task: RankingTask, pipeline: Pipeline, settings: RunSettings) -> Slots:
    built = pipeline.run_systems(settings) | pipeline.write_report()
    leave_built(pipeline, built)
    leave_scores(pipeline, built, task)
    return built
