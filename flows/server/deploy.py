"""Sets up a Prefect server: pools, queues, limits, deployments, automations; a second time changes nothing.

The server's own password is PREFECT_SERVER_API_AUTH_STRING, that of its clients PREFECT_API_AUTH_STRING. Prefect reads
both from the environment; nothing that is set up here holds them.
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
from flows.server.deployments import CATALOGUE, ENVIRONMENT, POOLS, QUEUES, Job, PoolName
from flows.server.settings import DeploySettings
from schemas.errors import UsageError

SILENCE = timedelta(seconds=90)
"""A run that gave no sign of life for so long is lost; one comes every 30 s."""

WEEK = timedelta(days=6)

ENDINGS = [f"prefect.flow-run.{state}" for state in ("Completed", "Failed", "Cancelled", "Crashed")]


class Change(NamedTuple):
    """What was done about one thing."""

    kind: str
    name: str
    what: Literal["created", "updated", "unchanged"]


def deploy_to_server(settings: DeploySettings | None = None, jobs: Sequence[Job] = CATALOGUE) -> list[Change]:
    """Runs `deploy` on the server of PREFECT_API_URL."""
    with get_client(sync_client=True) as client:
        return deploy(client, settings, jobs)


def deploy(
    client: SyncPrefectClient, settings: DeploySettings | None = None, jobs: Sequence[Job] = CATALOGUE
) -> list[Change]:
    """Makes the server what the catalogue says. What people paused or turned off stays so.

    Pools that exist are left as they are, whatever their type.

    Raises:
        UsageError: The notification block does not exist.
    """
    settings = settings or DeploySettings()
    changes = [change for pool in POOLS for change in _set_up_pool(client, pool)]
    changes.append(_set_up_limit(client, MODELS, settings.model_stages))
    deployed = {job.name: _set_up_deployment(client, job, settings) for job in jobs}
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


def _set_up_deployment(client: SyncPrefectClient, job: Job, settings: DeploySettings) -> tuple[UUID, Change]:
    flow = job.load()
    wanted: dict[str, Any] = {
        "entrypoint": job.entrypoint,
        "work_pool_name": settings.gpu_pool if job.pool == "gpu" else job.pool,
        "work_queue_name": job.queue,
        "description": job.description(),
        "parameters": job.parameters,
        "parameter_openapi_schema": parameter_schema(flow).model_dump(),
        "enforce_parameter_schema": True,
        "pull_steps": [],
        "job_variables": {"env": ENVIRONMENT},
    }
    try:
        found = client.read_deployment_by_name(f"{flow.name}/{job.name}")
    except ObjectNotFound:
        found = None
    if found and _is_as_wanted(found, job, wanted):
        return found.id, Change("deployment", job.name, "unchanged")
    made = client.create_deployment(
        flow_id=client.create_flow_from_name(flow.name),
        name=job.name,
        schedules=_schedules(job, found),
        concurrency_limit=job.limit,
        concurrency_options=ConcurrencyOptions(collision_strategy=ConcurrencyLimitStrategy.ENQUEUE)
        if job.limit
        else None,
        paused=found.paused if found else False,
        **wanted,
    )
    return made, Change("deployment", job.name, "updated" if found else "created")


def _is_as_wanted(found: DeploymentResponse, job: Job, wanted: dict[str, Any]) -> bool:
    limit = found.global_concurrency_limit.limit if found.global_concurrency_limit else None
    crons = [(entry.slug, entry.schedule) for entry in found.schedules if isinstance(entry.schedule, CronSchedule)]
    known = [(slug, schedule.cron, schedule.timezone) for slug, schedule in crons]
    same = all((getattr(found, name) or None) == (value or None) for name, value in wanted.items())
    return same and limit == job.limit and known == _cron(job) and len(known) == len(found.schedules)


def _cron(job: Job) -> list[tuple[str, str, str]]:
    return [(job.name, job.schedule.cron, job.schedule.timezone)] if job.schedule else []


def _schedules(job: Job, found: DeploymentResponse | None) -> list[DeploymentScheduleCreate]:
    active = {schedule.slug: schedule.active for schedule in found.schedules} if found else {}
    return [
        DeploymentScheduleCreate(
            schedule=CronSchedule(cron=cron, timezone=timezone), slug=slug, active=active.get(slug, True)
        )
        for slug, cron, timezone in _cron(job)
    ]


def automations(deployed: dict[str, UUID], block: UUID | None) -> list[AutomationCore]:
    """What the server does by itself: lost runs become Crashed, a release starts the weekly job, people are told."""
    found = [_lost_runs()]
    if "weekly" in deployed:
        found.append(
            AutomationCore(
                name="arena: a release is there",
                description="Starts the weekly job as soon as a release is said to be there, once a release.",
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
            _tell(block, "arena: an edition was published", EDITION_PUBLISHED, "arena.edition.*"),
            _tell(block, "arena: a release was refused", RELEASE_REFUSED, "arena.release.*"),
            _tell(block, "arena: a stage failed", STAGE_FAILED, "arena.stage.*"),
            _tell(block, "arena: a run crashed", "prefect.flow-run.Crashed", "prefect.flow-run.*"),
        ]
    return found


def _lost_runs() -> AutomationCore:
    return AutomationCore(
        name="arena: lost runs",
        description=f"A run that gave no sign of life for {SILENCE.seconds} s is Crashed: it can be retried.",
        trigger=EventTrigger(
            match=ResourceSpecification({"prefect.resource.id": "prefect.flow-run.*"}),
            for_each={"prefect.resource.id"},
            after={"prefect.flow-run.heartbeat"},
            expect={"prefect.flow-run.heartbeat", *ENDINGS},
            posture=Posture.Proactive,
            threshold=1,
            within=SILENCE,
        ),
        actions=[
            ChangeFlowRunState(
                name=None,
                force=False,
                state=StateType.CRASHED,
                message="no sign of life: the process or its machine is gone; retry the run, finished shards are kept",
            )
        ],
    )


def _tell(block: UUID, name: str, event: str, resource: str) -> AutomationCore:
    body = "{{ event.resource.name }}: {{ event.event }}\n{{ event.payload }}"
    return AutomationCore(
        name=name,
        trigger=_event(event, resource),
        actions=[SendNotification(block_document_id=block, subject=name, body=body)],
    )


def _event(name: str, resource: str, once_in: timedelta = timedelta(0)) -> EventTrigger:
    """Acts on an event, and for the same resource not again for a while."""
    return EventTrigger(
        match=ResourceSpecification({"prefect.resource.id": resource}),
        for_each={"prefect.resource.id"},
        expect={name},
        posture=Posture.Reactive,
        threshold=1,
        within=once_in,
    )


def _set_up_automation(client: SyncPrefectClient, wanted: AutomationCore) -> Change:
    """Creates or mends an automation; whether it is turned on is left to people."""
    found = next(iter(client.read_automations_by_name(wanted.name)), None)
    if found is None:
        client.create_automation(wanted)
        return Change("automation", wanted.name, "created")
    kept = wanted.model_copy(update={"enabled": found.enabled})
    if kept.model_dump() == AutomationCore.model_validate(found.model_dump()).model_dump():  # sets, which JSON orders
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
        raise UsageError(f"no notification block {name} on the server; make it in the UI under Blocks") from error
