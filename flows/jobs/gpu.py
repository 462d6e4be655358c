"""Hands embeddings to the pool of the GPUs, so that a week holds none while it downloads or asks models."""

from typing import cast

from prefect import get_run_logger
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun
from prefect.context import FlowRunContext
from prefect.deployments import run_deployment
from prefect.exceptions import ObjectNotFound

from flows.jobs.limits import is_deployed
from flows.pipeline.machine import Machine
from flows.pipeline.walk import Pipeline, Slots
from schemas.errors import StageFailed
from schemas.settings import IndexSettings
from tasks.store.editions import Editions

BUILD_INDEX = "build-index/build-index"


def build_indexes(pipeline: Pipeline, settings: IndexSettings, machine: Machine) -> Slots:
    """Builds the indexes: by a run of the deployment `build-index` where that has a pool of its own, else in this run.

    Raises:
        StageFailed: That run did not complete.
    """
    elsewhere = machine.root != Machine().root  # the other run works on the store of its worker
    pool = None if elsewhere or not settings.dense_fields else _pool_of_indexes()
    if pool is None:
        return pipeline.build_indexes(settings)
    get_run_logger().info("embeddings are made by a run of %s, on a worker of pool %s", BUILD_INDEX, pool)
    started = run_deployment(
        BUILD_INDEX,
        parameters={
            "edition": pipeline.edition,
            "settings": settings.model_dump(mode="json", exclude_unset=True),
            "control": pipeline.control.model_dump(mode="json", exclude_unset=True),
        },
        flow_run_name=f"build-index {pipeline.edition}",
        poll_interval=2,
    )
    run = cast(FlowRun, started)  # it is awaitable in asynchronous flows only
    if run.state is None or not run.state.is_completed():
        state = run.state.name if run.state else "no state"
        raise StageFailed(
            f"run {run.name} of {BUILD_INDEX} ended as {state}: {run.state.message if run.state else ''}; "
            "when its cause is mended, retry this run: what is finished is kept"
        )
    return {
        slot: ref
        for slot, ref in Editions(pipeline.store).load(pipeline.edition).slots.items()
        if slot.startswith(("bm25/", "embeddings/", "ann/"))
    }


def _pool_of_indexes() -> str | None:
    """Returns the pool of the deployment `build-index`; None where it is that of this run."""
    if not is_deployed():
        return None
    with get_client(sync_client=True) as client:
        try:
            pool = client.read_deployment_by_name(BUILD_INDEX).work_pool_name
        except ObjectNotFound:
            return None
    context = FlowRunContext.get()
    own = context.flow_run.work_pool_name if context and context.flow_run else None
    return pool if pool != own else None
