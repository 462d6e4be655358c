"""The flow that deletes old runs, unused datasets and old releases, and looks whether the other data is whole."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated
from uuid import UUID

from prefect import flow, get_run_logger
from prefect.artifacts import create_table_artifact
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    FlowRunFilter,
    FlowRunFilterEndTime,
)
from prefect.exceptions import ObjectNotFound
from pydantic import Field

from flows.jobs.runs import name_run
from flows.pipeline.machine import ReleaseFolder, StoreFolder
from flows.pipeline.summaries import Row
from schemas.errors import StoreError
from tasks.release.old_releases import OldFiles, delete_old, find_old
from tasks.store.collect import collect
from tasks.store.editions import Editions
from tasks.store.scrub import scrub
from tasks.store.store import Store

PAGE = 200
"""Rows per request to the server."""


@flow(name="clean-up")
def clean_up(
    keep_runs_days: Annotated[int, Field(ge=1, le=3650)] = 60,
    keep_data_days: Annotated[int, Field(ge=1, le=3650)] = 14,
    delete_runs: bool = True,
    delete_data: bool = False,
    keep_releases: Annotated[int, Field(ge=1, le=1000)] = 4,
    delete_releases: bool = False,
    reread_days: Annotated[int, Field(ge=0, le=3650)] = 28,
    folder: StoreFolder | None = None,
    mirror: ReleaseFolder | None = None,
) -> list[Row]:
    """Deletes old runs with their artifacts, datasets that no edition uses, and old releases of the mirror.

    Of the store and the mirror it first only lists what it would delete, and why: look at the list, then let it delete.
    Then reads every byte of datasets that were not read for a while, and fails when one is damaged.

    Args:
        keep_runs_days: Runs that ended more days ago than this are deleted.
        keep_data_days: Data that changed within the last so many days is kept.
        delete_runs: Delete old runs; otherwise only count them.
        delete_data: Delete from the store; otherwise only list what could be deleted.
        keep_releases: Newest whole releases of the mirror that stay. Older ones, and diffs before the newest published
            edition, can go once no unpublished edition is built from them.
        delete_releases: Delete old releases; otherwise only list them.
        reread_days: Datasets of which nobody has read every byte for so many days are read.
        folder: The store; left out: as the worker's environment says.
        mirror: The mirror; left out: as the worker's environment says.
    """
    name_run(f"clean-up {datetime.now(UTC):%Y-%m-%d}")
    store = Store((folder or StoreFolder()).root)
    garbage = collect(store, dry_run=not delete_data, older_than=timedelta(days=keep_data_days))
    old_files = _old_releases(store, (mirror or ReleaseFolder()).releases, keep_releases)
    if delete_releases:
        delete_old(old_files)
    rows: list[Row] = [
        {"path": str(item.path), "MB": round(item.size / 1e6, 1), "why": item.why} for item in (*garbage, *old_files)
    ]
    with get_client(sync_client=True) as client:
        old = ended_before(client, datetime.now(UTC) - timedelta(days=keep_runs_days))
        if delete_runs:
            delete_runs_with_artifacts(client, old)
    summary = (
        f"old runs {_done(delete_runs)}: {len(old)}; folders of the store {_done(delete_data)}: {len(garbage)}; "
        f"of the mirror {_done(delete_releases)}: {len(old_files)}"
    )
    get_run_logger().info(summary)
    damaged = list(scrub(store, timedelta(days=reread_days)))
    found: list[Row] = [{"path": None, "MB": None, "why": why} for why in damaged]
    create_table_artifact(rows + found, key="clean-up", description=f"{summary}; damaged datasets: {len(damaged)}")
    if damaged:
        raise StoreError(f"{len(damaged)} damaged datasets, the first: {damaged[0]}")
    return rows


def _old_releases(store: Store, releases: Path, keep: int) -> list[OldFiles]:
    editions = [Editions(store).load(name) for name in Editions(store).names()]
    built = max((edition.release for edition in editions if edition.published), default="")
    return find_old(releases, keep, built, {edition.release for edition in editions if not edition.published})


def _done(deleted: bool) -> str:
    return "deleted" if deleted else "that can be deleted"


def ended_before(client: SyncPrefectClient, moment: datetime) -> list[UUID]:
    """Returns the runs that ended before a moment."""
    wanted = FlowRunFilter(end_time=FlowRunFilterEndTime(before_=moment))  # pyright: ignore[reportCallIssue, reportArgumentType]
    found: list[UUID] = []
    while page := client.read_flow_runs(flow_run_filter=wanted, limit=PAGE, offset=len(found)):
        found += [run.id for run in page]
    return found


def delete_runs_with_artifacts(client: SyncPrefectClient, runs: list[UUID]) -> None:
    """Deletes runs with their artifacts; skips runs that another clean-up has already deleted."""
    for run in runs:
        left = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run]))  # pyright: ignore[reportCallIssue]
        for artifact in client.read_artifacts(artifact_filter=left, limit=PAGE):
            client.delete_artifact(artifact.id)
        try:
            client.delete_flow_run(run)
        except ObjectNotFound:
            continue
