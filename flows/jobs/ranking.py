"""The flows of discovery and selection: the same runs, shown with the measures of one task or the other."""

from prefect import flow

from flows.jobs.artifacts import publish_build_artifact, publish_plan, publish_scores
from flows.jobs.as_task import task_pipeline
from flows.pipeline.machine import Machine
from flows.pipeline.stages import StageControl
from flows.pipeline.walk import Pipeline, Slots
from schemas.identifiers import EditionName
from schemas.settings import RunSettings
from tasks.metrics.ranking import RankingTask


@flow(name="discovery")
def discovery(
    edition: EditionName | None = None,
    settings: RunSettings = RunSettings(),
    control: StageControl = StageControl(),
    machine: Machine | None = None,
) -> Slots:
    """Runs systems on an edition's topics and shows recall and precision.

    Args:
        edition: Name of the edition; may be empty when there is only one.
        settings: Which systems run.
        control: Which stages execute.
        machine: Folders and resources; empty: as the worker's environment says.
    """
    return _run_systems("discovery", task_pipeline(machine, edition, control), settings, machine)


@flow(name="selection")
def selection(
    edition: EditionName | None = None,
    settings: RunSettings = RunSettings(),
    control: StageControl = StageControl(),
    machine: Machine | None = None,
) -> Slots:
    """Runs systems on an edition's topics and shows nDCG and MRR, under graded and under influential labels.

    Args:
        edition: Name of the edition; may be empty when there is only one.
        settings: Which systems run.
        control: Which stages execute.
        machine: Folders and resources; empty: as the worker's environment says.
    """
    return _run_systems("selection", task_pipeline(machine, edition, control), settings, machine)


def _run_systems(task: RankingTask, pipeline: Pipeline, settings: RunSettings, machine: Machine | None) -> Slots:
    publish_plan(pipeline, pipeline.plan_runs(settings), machine)
    built = pipeline.run_systems(settings) | pipeline.write_report()
    publish_build_artifact(pipeline, built)
    publish_scores(pipeline, built, task)
    return built
