"""The flow that builds one stage of an edition again."""

from typing import Annotated

from prefect import flow
from pydantic import Field

from flows.jobs.artifacts import leave_built
from flows.jobs.as_task import task_pipeline
from flows.pipeline.machine import Machine
from flows.pipeline.rerun import Mode, rerun
from flows.pipeline.stages import StageChoice, StageControl
from flows.pipeline.walk import Slots

EditionName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


@flow(name="rerun-stage")
def rerun_stage(
    edition: EditionName,
    stage: StageChoice,
    mode: Mode = "if_failed",
    max_usd: Annotated[float | None, Field(ge=0)] = None,
    machine: Machine | None = None,
) -> Slots:
    """Runs one stage of an edition again, as it was asked for, and then what depends on bytes that changed.

    What the stage is made from ends as Cached, what did not change, too.

    Args:
        edition: Its name.
        stage: Which stage; all of its slots.
        mode: if_failed executes what is missing or damaged, force executes the stage although its dataset is there.
        max_usd: Cap on what the edition may spend on language models in all, in USD.
        machine: Folders and resources; as the worker's environment says when empty.
    """
    pipeline = task_pipeline(machine, edition, StageControl(max_usd=max_usd))
    built = rerun(pipeline, stage, mode)
    leave_built(pipeline, built)
    return built
