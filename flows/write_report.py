"""The flow that writes an edition's report."""

from prefect import flow

from flows.artifacts import leave_built
from flows.as_task import task_pipeline
from flows.machine import Machine
from flows.pipeline import Slots
from schemas.settings import StageControl


@flow(name="report")
def write_report(
    edition: str | None = None,
    control: StageControl = StageControl(),
    machine: Machine | None = None,
) -> Slots:
    """Writes the report on every scored run of an edition.

    Args:
        edition: Its name; may be empty when there is only one.
        control: What is executed.
        machine: Folders and resources; as the worker's environment says when empty.
    """
    pipeline = task_pipeline(machine, edition, control)
    built = pipeline.write_report()
    leave_built(pipeline, built)
    return built
