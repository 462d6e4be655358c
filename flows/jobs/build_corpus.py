"""The flow that builds a corpus: documents, topics and relevance judgments from release files."""

from prefect import flow

from flows.jobs.artifacts import publish_build_artifact, publish_plan
from flows.jobs.as_task import task_executor
from flows.pipeline.machine import Machine
from flows.pipeline.release_files import open_files
from flows.pipeline.stages import StageControl
from flows.pipeline.walk import Pipeline, Slots
from schemas.identifiers import EditionName, ReleaseName
from schemas.settings import CorpusSettings
from tasks.store.store import Store


@flow(name="build-corpus")
def build_corpus(
    release: ReleaseName | None = None,
    edition: EditionName | None = None,
    settings: CorpusSettings = CorpusSettings(),
    control: StageControl = StageControl(),
    machine: Machine | None = None,
) -> Slots:
    """Builds documents, topics and relevance judgments of a release, and starts an edition.

    Args:
        release: Id of the release, for example 2024-02-06; empty: the newest in the folder.
        edition: Name of the edition; empty: the release.
        settings: How the corpus is built.
        control: Which stages execute.
        machine: Folders and resources; empty: as the worker's environment says.
    """
    machine = machine or Machine()
    files = open_files(machine, release)
    store = Store(machine.root)
    name = edition or files["papers"].release
    pipeline = Pipeline(store, name, task_executor(store, machine), control)
    publish_plan(pipeline, pipeline.plan_corpus(settings, files), machine)
    built = pipeline.build_corpus(settings, files) | pipeline.write_report()
    publish_build_artifact(pipeline, built)
    return built
