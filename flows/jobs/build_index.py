"""The flow that builds indexes over an edition's documents."""

from prefect import flow

from flows.jobs.artifacts import publish_build_artifact, publish_plan
from flows.jobs.as_task import task_pipeline
from flows.pipeline.machine import Machine
from flows.pipeline.stages import StageControl
from flows.pipeline.walk import Slots
from schemas.identifiers import EditionName
from schemas.settings import IndexSettings


@flow(name="build-index")
def build_index(
    edition: EditionName | None = None,
    settings: IndexSettings = IndexSettings(),
    control: StageControl = StageControl(),
    machine: Machine | None = None,
) -> Slots:
    """Builds BM25 indexes and embeddings over an edition's documents.

    Args:
        edition: Name of the edition; may be empty when there is only one.
        settings: Which indexes are built.
        control: Which stages execute.
        machine: Folders and resources; empty: as the worker's environment says.
    """
    pipeline = task_pipeline(machine, edition, control)
    publish_plan(pipeline, pipeline.plan_indexes(settings), machine)
    built = pipeline.build_indexes(settings)
    publish_build_artifact(pipeline, built)
    return built
