"""The weekly flow: fetches a new release, checks it, builds it, runs systems on it and publishes the edition."""

from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from prefect import flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Completed
from prefect.tasks import exponential_backoff
from pydantic import Field

from flows.jobs.artifacts import publish_results
from flows.jobs.as_task import is_transient, task_executor
from flows.jobs.events import (
    emit_edition_published,
    emit_nothing_new,
    emit_release_available,
    emit_release_refused,
)
from flows.jobs.forms import refresh_choices
from flows.jobs.gpu import build_indexes
from flows.jobs.parameters import Expert, choose
from flows.jobs.runs import begin_run, finish_run, name_run
from flows.pipeline.machine import Machine
from flows.pipeline.release_files import fingerprints_in, open_files, open_update, record_counts
from flows.pipeline.stages import StageControl
from flows.pipeline.upstream import Upstream, open_api
from flows.pipeline.walk import Pipeline, Slots
from schemas.fetching import FetchSettings
from schemas.gate import GateSettings, Verdict
from schemas.manifest import EditionManifest
from schemas.settings import (
    CorpusSettings,
    IndexSettings,
    OrganizationSettings,
    RunSettings,
    Settings,
)
from tasks.release.client import newest_release
from tasks.release.diff_gate import check_diffs, check_records
from tasks.release.diffs import list_ends
from tasks.release.fetch import fetch_diffs, fetch_release
from tasks.release.gate import check_release, list_refused
from tasks.release.mirror import list_releases
from tasks.store.editions import Editions
from tasks.store.store import Store


class WeekSettings(Settings):
    """Where the week's release comes from, and what is built from it."""

    source: Literal["service", "mirror"] = Field(
        default="service", description="Ask Semantic Scholar for a new release, or use the newest one in the folder."
    )
    way: Literal["diffs", "whole"] = Field(
        default="diffs", description="Apply the diffs since the last edition's release, or read each release whole."
    )
    corpus: CorpusSettings = Field(default=CorpusSettings(), description="How the corpus is built.")
    index: IndexSettings = Field(default=IndexSettings(), description="Which indexes are built.")
    runs: RunSettings = Field(default=RunSettings(), description="Which systems run.")
    organization: OrganizationSettings | None = Field(
        default=None, description="Which builders build mind-maps; empty: none. Needs mind-maps in the corpus."
    )
    fetch: FetchSettings = Field(default=FetchSettings(), description="What to fetch, and how.")
    gate: GateSettings = Field(default=GateSettings(), description="When to refuse a release.")
    site: str = Field(
        default="", description="Folder that the site of the leaderboards is written to in the end; empty: none."
    )


class Week(NamedTuple):
    """A release to build: by diffs from the edition `base`, or whole (None)."""

    release: str
    base: EditionManifest | None


_retrying_task = partial(
    task,
    retries=4,
    retry_delay_seconds=exponential_backoff(backoff_factor=60),
    retry_condition_fn=is_transient,
    cache_policy=NO_CACHE,
)
"""A task that calls Semantic Scholar; transient errors are retried over several minutes."""


@flow(name="weekly")
def weekly(
    settings: WeekSettings = WeekSettings(),
    upstream: Upstream | None = None,
    control: StageControl = StageControl(),
    machine: Machine | None = None,
    expert: Expert | None = None,
) -> Slots | State[Any]:
    """Fetches the newest release, builds it, runs the systems on it, publishes the edition and shows what changed.

    A week without a new release ends in the state NothingNew, a week whose release is refused in Refused. Neither is a
    failure, and the existing editions stay as they are. It needs a GPU only for embeddings: where the deployment
    build-index belongs to another pool, that is where they are made.

    Args:
        settings: Where the release comes from, and what is built from it.
        upstream: Where Semantic Scholar is; empty: as the worker's environment says.
        control: Which stages execute.
        machine: Folders and resources; empty: as the worker's environment says.
        expert: What a run rarely changes.
    """
    settings, control, machine = choose(settings, control, machine, expert)
    upstream = (expert and expert.upstream) or upstream
    store = Store(machine.root)
    last = _last_published(store)
    week = _find_week(settings, upstream, machine, last)
    if week is None:
        name_run("weekly: nothing new")
        emit_nothing_new(last.release if last else None)
        return Completed(name="NothingNew", message=f"no release after {last.release if last else 'any in the mirror'}")
    begin_run(f"weekly {week.release}", walks=4 + bool(week.base) + bool(settings.organization))
    emit_release_available(week.release)
    refusal = _fetch_and_check(settings, upstream, machine, week)
    pipeline = Pipeline(store, week.release, task_executor(store, machine), control)
    built = _build_corpus(pipeline, settings, machine, week) if refusal is None else refusal
    if isinstance(built, str):
        emit_release_refused(week.release, built)
        finish_run()
        return Completed(name="Refused", message=f"release {week.release} is not built: {built}")
    refresh_choices(machine)
    built |= build_indexes(pipeline, settings.index, machine)
    built |= pipeline.run_systems(settings.runs)
    if settings.organization:
        built |= pipeline.organize(settings.organization)
    built |= pipeline.write_report()
    Editions(store).publish(week.release)
    emit_edition_published(week.release, week.release)
    trees = settings.organization is not None
    publish_results(pipeline, built, "discovery", trees=trees, before=last.name if last else None)
    if settings.site:
        _write_site(store, Path(settings.site))
    return built


@task(name="write-site", task_run_name="write the site", cache_policy=NO_CACHE)
def _write_site(store: Store, folder: Path) -> None:
    from tasks.site.site import write_site

    written = write_site(store, Editions(store).names(), folder)
    get_run_logger().info("site: %d pages on %d editions: %s", written.pages, len(written.editions), folder)


def _last_published(store: Store) -> EditionManifest | None:
    """Returns the published edition of the newest release, among those that are named after their release."""
    editions = Editions(store)
    found = [edition for edition in map(editions.load, editions.names()) if edition.published]
    return max((e for e in found if e.name == e.release), key=lambda edition: edition.release, default=None)


@_retrying_task(name="find-release", task_run_name="find the release")
def _find_week(
    settings: WeekSettings, upstream: Upstream | None, machine: Machine, last: EditionManifest | None
) -> Week | None:
    """Returns the newest release that has no published edition and was not refused; None: there is none."""
    refused = list_refused(machine.releases)
    done = last.release if last else ""
    ends = list_ends(machine.releases) if settings.way == "diffs" and last else []
    offered = [r for r in (*list_releases(machine.releases), *ends) if r > done and r not in refused]
    if settings.source == "service":
        with open_api(upstream) as api:
            newest = newest_release(api, [done, *refused])
        offered += [newest] if newest else []
    if not offered:
        return None
    return Week(max(offered), last if settings.way == "diffs" else None)


@_retrying_task(name="fetch-release", task_run_name="fetch and check {week.release}")
def _fetch_and_check(settings: WeekSettings, upstream: Upstream | None, machine: Machine, week: Week) -> str | None:
    """Fetches and checks a release. Returns why it is refused, or None when it is accepted."""
    if settings.source == "service":
        with open_api(upstream) as api:
            if week.base:
                fetch_diffs(api, machine.releases, (week.base.release, week.release), settings.fetch)
            else:
                fetch_release(api, machine.releases, week.release, settings.fetch)
    if week.base:
        counts = record_counts(Store(machine.root), week.base)
        steps = (week.base.release, week.release)
        verdict = check_diffs(machine.releases, steps, counts, settings.gate, fingerprints_in(machine.root))
    else:
        verdict = check_release(machine.releases, week.release, settings.gate)
    return None if verdict.accepted else _summarize(verdict)


def _build_corpus(pipeline: Pipeline, settings: WeekSettings, machine: Machine, week: Week) -> Slots | str:
    """Builds the corpus. Returns its slots, or why the records are refused that the diffs lead to."""
    if week.base is None:
        return pipeline.build_corpus(settings.corpus, open_files(machine, week.release))
    update = open_update(machine, week.base.name, week.release)
    records = pipeline.until("full_texts")
    records.update_corpus(settings.corpus, update)
    store = pipeline.store
    steps = (week.base.release, week.release)
    rows = (record_counts(store, week.base), record_counts(store, Editions(store).load(week.release)))
    verdict = check_records(machine.releases, steps, rows, settings.gate)
    return pipeline.update_corpus(settings.corpus, update) if verdict.accepted else _summarize(verdict)


def _summarize(verdict: Verdict) -> str:
    """Returns the findings that refuse a release, as one line."""
    refusing = (finding for finding in verdict.findings if finding.refuses)
    return " | ".join(f"{f.dataset} {f.check}: {f.seen}; expected {f.expected}; {f.remedy}" for f in refusing)
