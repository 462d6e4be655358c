"""The flow that reads a release whole and says where an edition that was made by diffs has drifted from it."""

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Completed

from flows.jobs.artifacts import leave_changes
from flows.jobs.as_task import task_executor
from flows.pipeline.changes import change_rows
from flows.pipeline.machine import Machine
from flows.pipeline.release_files import open_files
from flows.pipeline.stages import StageControl
from flows.pipeline.upstream import Upstream, open_api
from flows.pipeline.walk import Pipeline, choose_edition
from schemas.fetching import FetchSettings
from schemas.settings import CorpusSettings
from tasks.release.fetch import fetch_release
from tasks.release.mirror import list_releases
from tasks.store.editions import Editions
from tasks.store.store import Store


@flow(name="resync")
def resync(
    edition: str | None = None,
    settings: CorpusSettings = CorpusSettings(),
    fetch: FetchSettings | None = None,
    upstream: Upstream | None = None,
    machine: Machine | None = None,
) -> State[Any]:
    """Builds the corpus of an edition's release whole, beside the edition, and compares the two.

    The state is InStep when every dataset of the corpus has the same content, else Diverged; the artifact says which
    ones differ, and which topics. The corpus read whole stays in the draft edition `<edition>-whole`.

    Args:
        edition: Its name; may be empty when there is only one.
        settings: What the corpus is: as the edition was built.
        fetch: What is fetched when the release is not in the folder; empty: the usual datasets.
        upstream: Where Semantic Scholar is; as the worker's environment says when empty.
        machine: Folders and resources; as the worker's environment says when empty.
    """
    machine = machine or Machine()
    store = Store(machine.root)
    name = choose_edition(store, edition)
    release = Editions(store).load(name).release
    if release not in list_releases(machine.releases):
        with open_api(upstream) as api:
            fetch_release(api, machine.releases, release, fetch or FetchSettings())
    whole = f"{name}-whole"
    pipeline = Pipeline(store, whole, task_executor(store, machine), StageControl())
    built = pipeline.build_corpus(settings, open_files(machine, release))
    found = change_rows(store, whole, name)
    others = [row["slot"] for row in found.datasets if row["slot"] in built and row["content"] != "same"]
    leave_changes(store, whole, name)
    if not others:
        return Completed(name="InStep", message=f"edition {name}: {len(built)} datasets equal those read whole")
    return Completed(
        name="Diverged",
        message=f"edition {name} differs from release {release} read whole in {', '.join(map(str, others))}; "
        f"go on from edition {whole}: publish it, or build the next week whole",
    )
