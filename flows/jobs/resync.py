"""The flow that reads a whole release and shows where an edition built from diffs has drifted from it."""

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Completed

from flows.jobs.artifacts import publish_changes
from flows.jobs.as_task import task_executor
from flows.jobs.forms import refresh_choices
from flows.jobs.parameters import NEWEST, Edition, Expert, choose
from flows.jobs.runs import begin_run, finish_run
from flows.pipeline.changes import change_rows
from flows.pipeline.machine import Machine
from flows.pipeline.release_files import open_files
from flows.pipeline.stages import StageControl
from flows.pipeline.upstream import Upstream, open_api
from flows.pipeline.walk import Pipeline, choose_edition, newest_published
from schemas.fetching import FetchSettings
from schemas.settings import CorpusSettings
from tasks.release.fetch import fetch_release
from tasks.release.mirror import list_releases
from tasks.store.editions import Editions
from tasks.store.store import Store


@flow(name="resync")
def resync(
    edition: Edition = NEWEST,
    settings: CorpusSettings = CorpusSettings(),
    fetch: FetchSettings | None = None,
    upstream: Upstream | None = None,
    machine: Machine | None = None,
    expert: Expert | None = None,
) -> State[Any]:
    """Builds the corpus again from the whole release of an edition, and compares the two.

    The final state is InStep when every dataset of the corpus has the same content, otherwise Diverged. The artifact
    lists the datasets and topics that differ. The new corpus stays in the draft edition `<edition>-whole`.

    Args:
        edition: Name of the edition, or newest: the newest published one, or the only one.
        settings: How the corpus is built; use the settings of the edition.
        fetch: What to fetch when the release is not in the folder; left out: the usual datasets.
        upstream: Where Semantic Scholar is; empty: as the worker's environment says.
        machine: Folders and resources; empty: as the worker's environment says.
        expert: What a run rarely changes.
    """
    settings, control, machine = choose(settings, StageControl(), machine, expert)
    upstream = (expert and expert.upstream) or upstream
    store = Store(machine.root)
    name = choose_edition(store, newest_published(store) if edition == NEWEST else edition)
    begin_run(f"resync {name}")
    release = Editions(store).load(name).release
    if release not in list_releases(machine.releases):
        with open_api(upstream) as api:
            fetch_release(api, machine.releases, release, fetch or FetchSettings())
    whole = f"{name}-whole"
    pipeline = Pipeline(store, whole, task_executor(store, machine), control)
    built = pipeline.build_corpus(settings, open_files(machine, release))
    found = change_rows(store, whole, name)
    others = [row["slot"] for row in found.datasets if row["slot"] in built and row["content"] != "same"]
    publish_changes(store, whole, name)
    finish_run()
    refresh_choices(machine)
    if not others:
        return Completed(
            name="InStep", message=f"edition {name}: {len(built)} datasets equal those of the whole release"
        )
    return Completed(
        name="Diverged",
        message=f"edition {name} differs from the whole release {release} in {', '.join(map(str, others))}; "
        f"continue from edition {whole}: publish it, or build the next week from the whole release",
    )
