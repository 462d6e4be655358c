"""The flow of the search benchmark: how relevant are the papers that engines return for researchers' queries?"""

from pathlib import Path

from prefect import flow

from flows.jobs.artifacts import publish_results
from flows.jobs.as_task import task_executor
from flows.jobs.forms import refresh_choices
from flows.jobs.parameters import NEWEST, Expert, choose
from flows.jobs.runs import begin_run
from flows.pipeline.machine import Machine
from flows.pipeline.search_walk import ask_engines, judge_results, search_edition
from flows.pipeline.stages import StageControl
from flows.pipeline.walk import Pipeline, Slots, newest_edition
from schemas.identifiers import EditionName
from schemas.search import SearchSettings
from tasks.store.store import Store


@flow(name="paper-search")
def paper_search(
    queries: list[Path],
    edition: EditionName = NEWEST,
    settings: SearchSettings = SearchSettings(),
    labels: Path | None = None,
    control: StageControl = StageControl(),
    machine: Machine | None = None,
    expert: Expert | None = None,
) -> Slots:
    """Sends every query to the engines, judges the papers they return, and compares the engines.

    Args:
        queries: Query files, one test set each.
        edition: Name of the edition, or newest: that of the newest release. A new name is fine for engines on the web.
        settings: Which engines and judges to use.
        labels: A sheet on which people judged some of the papers, to compare the judges with.
        control: Which stages execute, and what they may spend.
        machine: Folders and resources; empty: as the worker's environment says.
        expert: What a run rarely changes.
    """
    settings, control, machine = choose(settings, control, machine, expert)
    store = Store(machine.root)
    name = newest_edition(store) if edition == NEWEST else search_edition(store, edition, settings)
    begin_run(f"paper-search {name}", walks=3)
    pipeline = Pipeline(store, name, task_executor(store, machine), control)
    built = judge_results(pipeline, settings, ask_engines(pipeline, settings, queries), labels)
    publish_results(pipeline, built)
    refresh_choices(machine)
    return built
