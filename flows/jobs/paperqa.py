"""The flow of AirQA: how many questions over papers do systems answer?"""

from prefect import flow

from flows.jobs.artifacts import leave_built
from flows.jobs.as_task import task_executor
from flows.pipeline.machine import Machine
from flows.pipeline.paperqa_walk import answer_questions
from flows.pipeline.plans.paperqa import PaperQaFiles, PaperQaPlan
from flows.pipeline.stages import StageControl
from flows.pipeline.walk import Pipeline, Slots
from tasks.store.store import Store


@flow(name="paperqa")
def paperqa(
    files: PaperQaFiles,
    edition: str = "airqa",
    settings: PaperQaPlan = PaperQaPlan(),
    control: StageControl = StageControl(),
    machine: Machine | None = None,
) -> Slots:
    """Runs systems on questions over papers, scores their answers and writes the page.

    Args:
        files: Questions, metadata, processed data, PDFs.
        edition: Name under which the datasets are recorded; a new one is begun where there is none of that name.
        settings: Which systems, which model, who judges.
        control: What is executed, and what may be spent.
        machine: Folders and resources; as the worker's environment says when empty.
    """
    machine = machine or Machine()
    store = Store(machine.root)
    pipeline = Pipeline(store, edition, task_executor(store, machine), control)
    built = answer_questions(pipeline, files, settings)
    leave_built(pipeline, built)
    return built
