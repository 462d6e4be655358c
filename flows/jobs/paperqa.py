"""The flow of AirQA: how many questions about papers does a system answer correctly?"""

from prefect import flow

from flows.jobs.artifacts import publish_results
from flows.jobs.as_task import task_executor
from flows.jobs.forms import refresh_choices
from flows.jobs.parameters import Expert, choose
from flows.jobs.runs import begin_run
from flows.pipeline.machine import Machine
from flows.pipeline.paperqa_walk import answer_questions
from flows.pipeline.plans.paperqa import PaperQaFiles, PaperQaPlan
from flows.pipeline.stages import StageControl
from flows.pipeline.walk import Pipeline, Slots
from schemas.identifiers import EditionName
from tasks.store.store import Store


@flow(name="paperqa")
def paperqa(
    files: PaperQaFiles,
    edition: EditionName = "airqa",
    settings: PaperQaPlan = PaperQaPlan(),
    control: StageControl = StageControl(),
    machine: Machine | None = None,
    expert: Expert | None = None,
) -> Slots:
    """Runs systems on questions about papers, scores their answers and writes the report.

    Args:
        files: Questions, metadata, processed data, PDFs.
        edition: Name of the edition; a new one starts when none has this name.
        settings: Which systems answer, with which model, and who judges.
        control: Which stages execute, and what they may spend.
        machine: Folders and resources; empty: as the worker's environment says.
        expert: What a run rarely changes.
    """
    settings, control, machine = choose(settings, control, machine, expert)
    begin_run(f"paperqa {edition}")
    store = Store(machine.root)
    pipeline = Pipeline(store, edition, task_executor(store, machine), control)
    built = answer_questions(pipeline, files, settings)
    publish_results(pipeline, built)
    refresh_choices(machine)
    return built
