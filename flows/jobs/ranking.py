"""The flows of discovery and selection: the same runs, shown with the measures of one task or the other."""

from prefect import flow

from flows.jobs.artifacts import publish_plan, publish_results
from flows.jobs.as_task import task_pipeline
from flows.jobs.parameters import NEWEST, Chosen, Edition, Expert, choose
from flows.jobs.runs import begin_run
from flows.pipeline.machine import Machine
from flows.pipeline.stages import StageControl
from flows.pipeline.walk import Slots
from schemas.settings import RunSettings
from tasks.metrics.ranking import RankingTask


@flow(name="discovery")
def discovery(
    edition: Edition = NEWEST,
    settings: RunSettings = RunSettings(),
    control: StageControl = StageControl(),
    machine: Machine | None = None,
    expert: Expert | None = None,
) -> Slots:
    """Runs systems on an edition's topics and shows recall and precision.

    Args:
        edition: Name of the edition, or newest: that of the newest release.
        settings: Which systems run.
        control: Which stages execute.
        machine: Folders and resources; empty: as the worker's environment says.
        expert: What a run rarely changes.
    """
    return _run_systems("discovery", edition, choose(settings, control, machine, expert))


@flow(name="selection")
def selection(
    edition: Edition = NEWEST,
    settings: RunSettings = RunSettings(),
    control: StageControl = StageControl(),
    machine: Machine | None = None,
    expert: Expert | None = None,
) -> Slots:
    """Runs systems on an edition's topics and shows nDCG and MRR, under graded and under influential labels.

    Args:
        edition: Name of the edition, or newest: that of the newest release.
        settings: Which systems run.
        control: Which stages execute.
        machine: Folders and resources; empty: as the worker's environment says.
        expert: What a run rarely changes.
    """
    return _run_systems("selection", edition, choose(settings, control, machine, expert))


def _run_systems(task: RankingTask, edition: str, chosen: Chosen[RunSettings]) -> Slots:
    pipeline = task_pipeline(chosen.machine, edition, chosen.control)
    begin_run(f"{task} {pipeline.edition}", walks=2)
    publish_plan(pipeline, pipeline.plan_runs(chosen.settings), chosen.machine)
    built = pipeline.run_systems(chosen.settings) | pipeline.write_report()
    publish_results(pipeline, built, task)
    return built
