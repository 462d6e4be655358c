"""The flow that reruns one stage of an edition."""

from typing import Annotated

from prefect import flow
from pydantic import Field

from flows.jobs.artifacts import publish_results
from flows.jobs.as_task import task_pipeline
from flows.jobs.parameters import Edition
from flows.jobs.runs import begin_run
from flows.pipeline.machine import Machine
from flows.pipeline.rerun import AskedAgain, Mode, choose, rerun
from flows.pipeline.stages import StageChoice, StageControl
from flows.pipeline.walk import Slots
from tasks.store.editions import Editions


@flow(name="rerun-stage")
def rerun_stage(
    edition: Edition,
    stage: StageChoice,
    mode: Mode = "if_failed",
    outcomes: tuple[AskedAgain, ...] = (),
    max_usd: Annotated[float | None, Field(ge=0)] = None,
    machine: Machine | None = None,
) -> Slots:
    """Reruns one stage of an edition with its recorded settings, then every stage whose inputs changed.

    Stages that need not run end in the state Cached.

    Args:
        edition: Name of the edition, or newest: that of the newest release.
        stage: Which stage; all of its slots are rerun.
        mode: if_failed runs the stage where its dataset is missing or damaged; force always runs it.
        outcomes: Ask a model again only about the topics, queries or questions that ended so; empty: as the mode says.
        max_usd: Most that the edition may spend on language models in total, in USD.
        machine: Folders and resources; empty: as the worker's environment says.
    """
    pipeline = task_pipeline(machine or Machine(), edition, StageControl(max_usd=max_usd))
    begin_run(f"rerun {stage} {pipeline.edition}")
    built = rerun(pipeline, choose(pipeline, stage, mode, outcomes=outcomes))
    edition_now = Editions(pipeline.store).load(pipeline.edition)
    if "report" in edition_now.slots and edition_now.published:
        built |= {"report": edition_now.slots["report"]}
    elif "report" not in built and any(slot.startswith(("scores/", "tree_scores/")) for slot in edition_now.slots):
        built |= pipeline.write_report()
    publish_results(pipeline, built)
    return built
