"""The flow that builds a corpus: documents, topics and relevance judgments from release files."""

from prefect import flow

from flows.jobs.artifacts import publish_plan, publish_results
from flows.jobs.as_task import task_executor
from flows.jobs.forms import refresh_choices
from flows.jobs.parameters import NEWEST, Expert, NewEdition, Release, choose
from flows.jobs.runs import begin_run
from flows.pipeline.machine import Machine
from flows.pipeline.release_files import open_files
from flows.pipeline.stages import StageControl
from flows.pipeline.walk import Pipeline, Slots
from schemas.settings import CorpusSettings
from tasks.store.store import Store


@flow(name="build-corpus")
def build_corpus(
    release: Release = NEWEST,
    edition: NewEdition = None,
    settings: CorpusSettings = CorpusSettings(),
    control: StageControl = StageControl(),
    machine: Machine | None = None,
    expert: Expert | None = None,
) -> Slots:
    """Builds documents, topics and relevance judgments of a release, and starts an edition.

    Args:
        release: Id of the release, for example 2024-02-06, or newest: the newest in the folder.
        edition: Name of the edition; empty: the release.
        settings: How the corpus is built.
        control: Which stages execute.
        machine: Folders and resources; empty: as the worker's environment says.
        expert: What a run rarely changes.
    """
    settings, control, machine = choose(settings, control, machine, expert)
    files = open_files(machine, None if release == NEWEST else release)
    store = Store(machine.root)
    name = edition or files["papers"].release
    begin_run(f"build-corpus {name}", walks=2)
    pipeline = Pipeline(store, name, task_executor(store, machine), control)
    publish_plan(pipeline, pipeline.plan_corpus(settings, files), machine)
    built = pipeline.build_corpus(settings, files) | pipeline.write_report()
    publish_results(pipeline, built)
    refresh_choices(machine)
    return built
