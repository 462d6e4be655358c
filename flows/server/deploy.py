"""Sets up a Prefect server: pools, queues, limits, deployments, automations. Running it again changes nothing.

Prefect reads the server's password (PREFECT_SERVER_API_AUTH_STRING) and its clients' password
(PREFECT_API_AUTH_STRING) from the environment. Nothing that is set up here holds them.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Literal, NamedTuple
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import (
    DeploymentScheduleCreate,
    GlobalConcurrencyLimitCreate,
    GlobalConcurrencyLimitUpdate,
    WorkPoolCreate,
)
from prefect.client.schemas.objects import ConcurrencyLimitStrategy, ConcurrencyOptions, StateType
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.schedules import CronSchedule
from prefect.events.actions import ChangeFlowRunState, RunDeployment, SendNotification
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.events.schemas.events import ResourceSpecification
from prefect.exceptions import ObjectNotFound
from prefect.utilities.callables import parameter_schema
from prefect.workers.process import ProcessWorker

from flows.jobs.events import EDITION_PUBLISHED, RELEASE_AVAILABLE, RELEASE_REFUSED, STAGE_FAILED
from flows.jobs.limits import MODELS
from flows.server.deployments import CATALOGUE, POOLS, QUEUES, Entry, Job, PoolName, deployment_entry
from flows.server.settings import DeploySettings
from schemas.errors import UsageError

HEARTBEAT_TIMEOUT = timedelta(seconds=90)
"""A run without a heartbeat for this long is lost; heartbeats come every 30 s."""

WEEK = timedelta(days=6)

FINAL_EVENTS = [f"prefect.flow-run.{state}" for state in ("Completed", "Failed", "Cancelled", "Crashed")]


class Change(NamedTuple):
    """What was done to one object on the server."""

    kind: str
    name: str
    what: Literal["created", "updated", "unchanged"]


def deploy_to_server(settings: DeploySettings | None = None, jobs: Sequence[Job] = CATALOGUE) -> list[Change]:
    """Deploys to the server of PREFECT_API_URL."""
    with get_client(sync_client=True) as client:
        return deploy(client, settings, jobs)


def deploy(
    client: SyncPrefectClient, settings: DeploySettings | None = None, jobs: Sequence[Job] = CATALOGUE
) -> list[Change]:
    """Makes the server match the catalogue. What people paused or turned off stays that way.

    Existing pools stay as they are, whatever their type.

    Raises:
        UsageError: The notification block does not exist.
    """
    settings = settings or DeploySettings()
    changes = [change for pool in POOLS for change in _set_up_pool(client, pool)]
    changes.append(_set_up_limit(client, MODELS, settings.model_stages))
    deployed = {job.name: _set_up_deployment(client, job, settings.gpu_pool) for job in jobs}
    changes += [change for _, change in deployed.values()]
    wanted = automations({name: found for name, (found, _) in deployed.items()}, _block(client, settings.notify))
    return changes + [_set_up_automation(client, automation) for automation in wanted]


def _set_up_pool(client: SyncPrefectClient, pool: PoolName) -> list[Change]:
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
            if queue.priority != priority:
                client.update_work_queue(queue.id, priority=priority)
                changes[-1] = changes[-1]._replace(what="updated")
        except ObjectNotFound:
            client.create_work_queue(name, priority=priority, work_pool_name=pool)
            changes.append(Change("queue", f"{pool}/{name}", "created"))
    return changes


def _set_up_limit(client: SyncPrefectClient, name: str, limit: int) -> Change:
    try:
        found = client.read_global_concurrency_limit_by_name(name)
    except ObjectNotFound:
        client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name=name, limit=limit))
        return Change("limit", name, "created")
    if found.limit == limit:
        return Change("limit", name, "unchanged")
    client.update_global_concurrency_limit(name, GlobalConcurrencyLimitUpdate(limit=limit))
    return Change("limit", name, "updated")


def _set_up_deployment(client: SyncPrefectClient, job: Job, gpu_pool: PoolName) -> tuple[UUID, Change]:
    flow, entry = job.load(), deployment_entry(job, gpu_pool)
    pool = entry["work_pool"]
    wanted: dict[str, Any] = {
        "entrypoint": entry["entrypoint"],
        "work_pool_name": pool["name"],
        "work_queue_name": pool["work_queue_name"],
        "description": entry["description"],
        "parameters": entry["parameters"],
        "parameter_openapi_schema": parameter_schema(flow).model_dump_for_openapi(),
        "enforce_parameter_schema": entry["enforce_parameter_schema"],
        "pull_steps": [],
        "job_variables": pool["job_variables"],
    }
    try:
        found = client.read_deployment_by_name(f"{flow.name}/{job.name}")
    except ObjectNotFound:
        found = None
    if found and _is_as_wanted(found, entry, wanted):
        return found.id, Change("deployment", job.name, "unchanged")
    limit = entry.get("concurrency_limit")
    made = client.create_deployment(
        flow_id=client.create_flow_from_name(flow.name),
        name=job.name,
        schedules=_schedules(entry, found),
        concurrency_limit=limit["limit"] if limit else None,
        concurrency_options=ConcurrencyOptions(collision_strategy=ConcurrencyLimitStrategy(limit["collision_strategy"]))
        if limit
        else None,
        paused=found.paused if found else False,
        **wanted,
    )
    return made, Change("deployment", job.name, "updated" if found else "created")


def _is_as_wanted(found: DeploymentResponse, entry: Entry, wanted: dict[str, Any]) -> bool:
    limit = found.global_concurrency_limit.limit if found.global_concurrency_limit else None
    limit_wanted = entry.get("concurrency_limit", {}).get("limit")
    crons = [(known.slug, known.schedule) for known in found.schedules if isinstance(known.schedule, CronSchedule)]
    known = [{"slug": slug, "cron": schedule.cron, "timezone": schedule.timezone} for slug, schedule in crons]
    same = all((getattr(found, name) or None) == (value or None) for name, value in wanted.items())
    return same and limit == limit_wanted and known == entry.get("schedules", []) and len(known) == len(found.schedules)


def _schedules(entry: Entry, found: DeploymentResponse | None) -> list[DeploymentScheduleCreate]:
    active = {schedule.slug: schedule.active for schedule in found.schedules} if found else {}
    return [
        DeploymentScheduleCreate(
            schedule=CronSchedule(cron=wanted["cron"], timezone=wanted["timezone"]),
            slug=wanted["slug"],
            active=active.get(wanted["slug"], True),
        )
        for wanted in entry.get("schedules", [])
    ]


def automations(deployed: dict[str, UUID], block: UUID | None) -> list[AutomationCore]:
    """Returns what the server does by itself: mark lost runs as Crashed, start the weekly job, notify people."""
    found = [_lost_runs()]
    if "weekly" in deployed:
        found.append(
            AutomationCore(
                name="arena: a release is there",
                description="Starts the weekly job when a release becomes available, once per release.",
                trigger=_event(RELEASE_AVAILABLE, "arena.release.*", once_in=WEEK),
                actions=[
                    RunDeployment(
                        source="selected", deployment_id=deployed["weekly"], parameters={}, job_variables=None
                    )
                ],
            )
        )
    if block:
        found += [
            _notify(block, "arena: an edition was published", EDITION_PUBLISHED, "arena.edition.*"),
            _notify(block, "arena: a release was refused", RELEASE_REFUSED, "arena.release.*"),
            _notify(block, "arena: a stage failed", STAGE_FAILED, "arena.stage.*"),
            _notify(block, "arena: a run crashed", "prefect.flow-run.Crashed", "prefect.flow-run.*"),
        ]
    return found


def _lost_runs() -> AutomationCore:
    return AutomationCore(
        name="arena: lost runs",
        description=f"Marks a run as Crashed after {HEARTBEAT_TIMEOUT.seconds} s without a heartbeat.",
        trigger=EventTrigger(
            match=ResourceSpecification({"prefect.resource.id": "prefect.flow-run.*"}),
            for_each={"prefect.resource.id"},
            after={"prefect.flow-run.heartbeat"},
            expect={"prefect.flow-run.heartbeat", *FINAL_EVENTS},
            posture=Posture.Proactive,
            threshold=1,
            within=HEARTBEAT_TIMEOUT,
        ),
        actions=[
            ChangeFlowRunState(
                name=None,
                force=False,
                state=StateType.CRASHED,
                message="no heartbeat: the process or its machine is gone; retry the run, finished shards are kept",
            )
        ],
    )


def _notify(block: UUID, name: str, event: str, resource: str) -> AutomationCore:
    body = "{{ event.resource.name }}: {{ event.event }}\n{{ event.payload }}"
    return AutomationCore(
        name=name,
        trigger=_event(event, resource),
        actions=[SendNotification(block_document_id=block, subject=name, body=body)],
    )


def _event(name: str, resource: str, once_in: timedelta = timedelta(0)) -> EventTrigger:
    """Returns a trigger that fires on an event, at most once in `once_in` per resource."""
    return EventTrigger(
        match=ResourceSpecification({"prefect.resource.id": resource}),
        for_each={"prefect.resource.id"},
        expect={name},
        posture=Posture.Reactive,
        threshold=1,
        within=once_in,
    )


def _set_up_automation(client: SyncPrefectClient, wanted: AutomationCore) -> Change:
    """Creates or updates an automation; people decide whether it is turned on."""
    found = next(iter(client.read_automations_by_name(wanted.name)), None)
    if found is None:
        client.create_automation(wanted)
        return Change("automation", wanted.name, "created")
    kept = wanted.model_copy(update={"enabled": found.enabled})
    if (
        kept.model_dump() == AutomationCore.model_validate(found.model_dump()).model_dump()
    ):  # JSON turns sets into lists
        return Change("automation", wanted.name, "unchanged")
    client.update_automation(found.id, kept)
    return Change("automation", wanted.name, "updated")


def _block(client: SyncPrefectClient, name: str | None) -> UUID | None:
    if name is None:
        return None
    kind, _, block = name.partition("/")
    try:
        return client.read_block_document_by_name(block, kind).id
    except ObjectNotFound as error:
        raise UsageError(f"no notification block {name} on the server; create it in the UI under Blocks") from error
