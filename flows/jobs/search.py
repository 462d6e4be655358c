"""The flow of the search benchmark: how relevant is what engines return for researchers' queries?"""

from pathlib import Path

from prefect import flow

from flows.jobs.artifacts import leave_built
from flows.jobs.as_task import task_executor
from flows.pipeline.machine import Machine
from flows.pipeline.search_walk import ask_engines, judge_results, search_edition
from flows.pipeline.stages import StageControl
from flows.pipeline.walk import Pipeline, Slots
from schemas.search import SearchSettings
from tasks.store.store import Store


@flow(name="paper_search")
def paper_search(
    queries: list[Path],
    edition: str | None = None,
    settings: SearchSettings = SearchSettings(),
    labels: Path | None = None,
    control: StageControl = StageControl(),
    machine: Machine | None = None,
) -> Slots:
    """Asks engines every query, judges what they return, and shows how good it is.

    Args:
        queries: Files of queries, one test set each.
        edition: Its name; may be empty when there is only one.
        settings: Which engines and judges.
        labels: A sheet on which people judged some of the papers.
        control: What is executed, and what may be spent.
        machine: Folders and resources; as the worker's environment says when empty.
    """
    machine = machine or Machine()
    store = Store(machine.root)
    name = search_edition(store, edition, settings)
    pipeline = Pipeline(store, name, task_executor(store, machine), control)
    built = judge_results(pipeline, settings, ask_engines(pipeline, settings, queries), labels)
    leave_built(pipeline, built)
    return built
