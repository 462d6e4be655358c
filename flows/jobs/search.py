"""The flow of the search benchmark: how relevant are the papers that engines return for researchers' queries?"""

from pathlib import Path

from prefect import flow

from flows.jobs.artifacts import publish_build_artifact
from flows.jobs.as_task import task_executor
from flows.pipeline.machine import Machine
from flows.pipeline.search_walk import ask_engines, judge_results, search_edition
from flows.pipeline.stages import StageControl
from flows.pipeline.walk import Pipeline, Slots
from schemas.identifiers import EditionName
from schemas.search import SearchSettings
from tasks.store.store import Store


@flow(name="paper_search")
def paper_search(
    queries: list[Path],
    edition: EditionName | None = None,
    settings: SearchSettings = SearchSettings(),
    labels: Path | None = None,
    control: StageControl = StageControl(),
    machine: Machine | None = None,
) -> Slots:
    """Sends every query to the engines, judges the papers they return, and compares the engines.

    Args:
        queries: Query files, one test set each.
        edition: Name of the edition; may be empty when there is only one.
        settings: Which engines and judges to use.
        labels: A sheet on which people judged some of the papers, to compare the judges with.
        control: Which stages execute, and what they may spend.
        machine: Folders and resources; empty: as the worker's environment says.
    """
    machine = machine or Machine()
    store = Store(machine.root)
    name = search_edition(store, edition, settings)
    pipeline = Pipeline(store, name, task_executor(store, machine), control)
    built = judge_results(pipeline, settings, ask_engines(pipeline, settings, queries), labels)
    publish_build_artifact(pipeline, built)
    return built
