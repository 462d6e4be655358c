"""The flow from release files to documents, topics and relevance judgments."""

from prefect import flow

from flows.jobs.artifacts import leave_built
from flows.jobs.as_task import task_executor
from flows.pipeline.machine import Machine
from flows.pipeline.release_files import open_files
from flows.pipeline.stages import StageControl
from flows.pipeline.walk import Pipeline, Slots
from schemas.settings import CorpusSettings
from tasks.store.store import Store


@flow(name="build-corpus")
def build_corpus(
    release: str | None = None,
    edition: str | None = None,
    settings: CorpusSettings = CorpusSettings(),
    control: StageControl = StageControl(),
    machine: Machine | None = None,
) -> Slots:
    """Builds documents, topics and relevance judgments of a release, and starts an edition.

    Args:
        release: Id of the release, for example 2024-02-06; the newest in the folder when empty.
        edition: Name under which the datasets are recorded; the release when empty.
        settings: What the corpus is.
        control: What is executed.
        machine: Folders and resources; as the worker's environment says when empty.
    """
    machine = machine or Machine()
    files = open_files(machine, release)
    store = Store(machine.root)
    name = edition or files["papers"].release
    pipeline = Pipeline(store, name, task_executor(store, machine), control)
    built = pipeline.build_corpus(settings, files) | pipeline.write_report()
    leave_built(pipeline, built)
    return built
