"""Sets up work pools with their queues, and limits."""

from typing import Literal, NamedTuple

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import (
    GlobalConcurrencyLimitCreate,
    GlobalConcurrencyLimitUpdate,
    WorkPoolCreate,
)
from prefect.exceptions import ObjectNotFound
from prefect.workers.process import ProcessWorker

from flows.server.deployments import POOLS, QUEUES, PoolName
from flows.server.kept import merge
from flows.server.records import describe, read_record, write_record


class Change(NamedTuple):
    """What was done to one object on the server, and what people have set there and keep."""

    kind: str
    name: str
    what: Literal["created", "updated", "unchanged"]
    kept: str = ""


def set_up_pool(client: SyncPrefectClient, pool: PoolName) -> list[Change]:
    """Creates a pool and its queues; those that exist stay as they are."""
    changes: list[Change] = []
    try:
        client.read_work_pool(pool)
        changes.append(Change("pool", pool, "unchanged"))
    except ObjectNotFound:
        template = ProcessWorker.get_default_base_job_template()
        client.create_work_pool(
            WorkPoolCreate(name=pool, description=POOLS[pool], type="process", base_job_template=template)
        )
        changes.append(Change("pool", pool, "created"))
    for name, priority in QUEUES.items():
        try:
            queue = client.read_work_queue_by_name(name, pool)
            changes.append(Change("queue", f"{pool}/{name}", "unchanged"))
            if changes[0].what == "created" and queue.priority != priority:  # Prefect makes `default` with the pool
                client.update_work_queue(queue.id, priority=priority)
                changes[-1] = changes[-1]._replace(what="updated")
        except ObjectNotFound:
            client.create_work_queue(name, priority=priority, work_pool_name=pool)
            changes.append(Change("queue", f"{pool}/{name}", "created"))
    return changes


def set_up_limit(client: SyncPrefectClient, name: str, limit: int) -> Change:
    """Sets a limit, unless people have set another."""
    try:
        found = client.read_global_concurrency_limit_by_name(name)
    except ObjectNotFound:
        client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name=name, limit=limit))
        write_record(client, name, limit)
        return Change("limit", name, "created")
    merged, kept = merge(read_record(client, name), found.limit, limit)
    write_record(client, name, limit)
    if found.limit == merged:
        return Change("limit", name, "unchanged", describe(kept))
    client.update_global_concurrency_limit(name, GlobalConcurrencyLimitUpdate(limit=limit))
    return Change("limit", name, "updated")
