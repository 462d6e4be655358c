"""The flow that builds indexes over an edition's documents."""

from prefect import flow

from flows.jobs.artifacts import publish_plan, publish_results
from flows.jobs.as_task import task_pipeline
from flows.jobs.parameters import NEWEST, Edition, Expert, choose
from flows.jobs.runs import begin_run
from flows.pipeline.machine import Machine
from flows.pipeline.stages import StageControl
from flows.pipeline.walk import Slots
from schemas.settings import IndexSettings


@flow(name="build-index")
def build_index(
    edition: Edition = NEWEST,
    settings: IndexSettings = IndexSettings(),
    control: StageControl = StageControl(),
    machine: Machine | None = None,
    expert: Expert | None = None,
) -> Slots:
    """Builds BM25 indexes and embeddings over an edition's documents.

    Args:
        edition: Name of the edition, or newest: that of the newest release.
        settings: Which indexes are built.
        control: Which stages execute.
        machine: Folders and resources; empty: as the worker's environment says.
        expert: What a run rarely changes.
    """
    settings, control, machine = choose(settings, control, machine, expert)
    pipeline = task_pipeline(machine, edition, control)
    begin_run(f"build-index {pipeline.edition}")
    publish_plan(pipeline, pipeline.plan_indexes(settings), machine)
    built = pipeline.build_indexes(settings)
    publish_results(pipeline, built)
    return built
