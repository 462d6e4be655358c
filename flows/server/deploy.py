"""Sets up a Prefect server: pools, queues, limits, deployments, automations. Running it again changes nothing.

Everything is read, merged with what people have set on the server, and checked before anything is changed. What was
deployed last is kept in variables of the server (`arena_deployed_...`): a value that differs from it was set by a
person, and stays.

Prefect reads the server's password (PREFECT_SERVER_API_AUTH_STRING) and its clients' password
(PREFECT_API_AUTH_STRING) from the environment. Nothing that is set up here holds them.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, cast
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import (
    DeploymentScheduleCreate,
)
from prefect.client.schemas.objects import ConcurrencyLimitStrategy, ConcurrencyOptions
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.schedules import CronSchedule
from prefect.events.schemas.automations import AutomationCore
from prefect.exceptions import ObjectNotFound

from flows.jobs.forms import Schema, form_of, offered_choices
from flows.jobs.limits import MODELS
from flows.server.automations import automations
from flows.server.choices import check_parameters, choices_here
from flows.server.deployments import CATALOGUE, POOLS, Entry, Job, deployment_entry
from flows.server.kept import Difference, merge
from flows.server.pools import Change, set_up_limit, set_up_pool
from flows.server.records import describe, read_record, write_record
from flows.server.settings import DeploySettings, Installation
from schemas.errors import UsageError


class Planned(NamedTuple):
    """A deployment as it is going to be.

    Attributes:
        job: Its job.
        found: The deployment on the server; None: there is none yet.
        wanted: What the installation says, the part that people can change in the UI.
        merged: The same after the merge.
        form: The form of its runs.
        differences: What people have set and keep.
    """

    job: Job
    found: DeploymentResponse | None
    wanted: dict[str, Any]
    merged: dict[str, Any]
    form: Schema
    differences: list[Difference]


def deploy_to_server(
    installation: Installation | None = None, jobs: Sequence[Job] = CATALOGUE, overwrite: Collection[str] = ()
) -> list[Change]:
    """Deploys to the server of PREFECT_API_URL."""
    with get_client(sync_client=True) as client:
        return deploy(client, installation, jobs, overwrite)


def deploy(
    client: SyncPrefectClient,
    settings: DeploySettings | None = None,
    jobs: Sequence[Job] = CATALOGUE,
    overwrite: Collection[str] = (),
) -> list[Change]:
    """Makes the server match the installation. What people set, paused or turned off there stays that way.

    Args:
        client: Of the server.
        settings: The installation; None: the defaults.
        jobs: The jobs to deploy.
        overwrite: Jobs whose deployments get the installation's values whatever people have set.

    Raises:
        UsageError: The installation names a job, a pool or a notification block that does not exist, or a value that a
            form refuses; nothing was changed.
    """
    settings = settings or DeploySettings()
    installation = settings if isinstance(settings, Installation) else Installation(**settings.model_dump())
    names = {job.name for job in CATALOGUE}
    if unknown := sorted({*installation.jobs, *overwrite} - names):
        raise UsageError(f"no job is named {', '.join(unknown)}; there are: {', '.join(sorted(names))}")
    block = _block(client, installation.notify)
    here = choices_here()
    planned = [_plan(client, job, installation, here, job.name in overwrite) for job in jobs]
    for plan in planned:
        _check(client, plan)
    changes = [change for pool in POOLS for change in set_up_pool(client, pool)]
    changes.append(set_up_limit(client, MODELS, installation.model_stages))
    deployed: dict[str, UUID] = {}
    for plan in planned:
        deployed[plan.job.name], change = _set_up_deployment(client, plan)
        changes.append(change)
    return changes + [_set_up_automation(client, wanted) for wanted in automations(deployed, block)]


def _plan(
    client: SyncPrefectClient,
    job: Job,
    installation: Installation,
    here: Mapping[str, Sequence[str]],
    overwrite: bool,
) -> Planned:
    flow, entry = job.load(), deployment_entry(job, installation)
    found = _find(client, f"{flow.name}/{job.deployment}") or _find(client, f"{flow.name}/{job.name}")
    offered = offered_choices(found.parameter_openapi_schema) if found else {}
    wanted, form = _changeable(entry), form_of(flow, offered | dict(here))
    if found is None or overwrite:
        return Planned(job, found, wanted, wanted, form, [])
    merged, differences = merge(read_record(client, job.name), _changeable_of(found), wanted)
    return Planned(job, found, wanted, cast(dict[str, Any], merged), form, differences)


def _find(client: SyncPrefectClient, name: str) -> DeploymentResponse | None:
    try:
        return client.read_deployment_by_name(name)
    except ObjectNotFound:
        return None


def _changeable(entry: Entry) -> dict[str, Any]:
    """Returns the part of a deployment that people can change in the UI."""
    pool = entry["work_pool"]
    return {
        "parameters": entry["parameters"],
        "pool": pool["name"],
        "queue": pool["work_queue_name"],
        "job_variables": pool["job_variables"],
        "tags": sorted(entry["tags"]),
        "limit": entry.get("concurrency_limit", {}).get("limit"),
        "schedules": {
            cron["slug"]: {"cron": cron["cron"], "timezone": cron["timezone"]} for cron in entry.get("schedules", [])
        },
    }


def _changeable_of(found: DeploymentResponse) -> dict[str, Any]:
    """Returns the same of a deployment on the server; schedules without a name are people's and are not looked at."""
    limit = found.global_concurrency_limit
    return {
        "parameters": found.parameters,
        "pool": found.work_pool_name,
        "queue": found.work_queue_name,
        "job_variables": found.job_variables or {},
        "tags": sorted(found.tags),
        "limit": limit.limit if limit else None,
        "schedules": {
            known.slug: {"cron": known.schedule.cron, "timezone": known.schedule.timezone}
            if isinstance(known.schedule, CronSchedule)
            else {"other": known.schedule.model_dump(mode="json")}
            for known in found.schedules
            if known.slug
        },
    }


def _check(client: SyncPrefectClient, plan: Planned) -> None:
    """Checks a deployment before anything is changed.

    Raises:
        UsageError: Its form refuses one of its parameters, or it has no such pool.
    """
    if wrong := check_parameters(plan.job, plan.merged["parameters"], plan.form):
        raise UsageError(
            f"job {plan.job.name}: {wrong}; nothing was deployed. Change jobs.{plan.job.name}.parameters of the "
            f"installation, or, where it was saved in the UI, there (or: arena deploy --overwrite {plan.job.name})"
        )
    pool = plan.merged["pool"]
    if pool not in POOLS:
        try:
            client.read_work_pool(pool)
        except ObjectNotFound as error:
            raise UsageError(
                f"job {plan.job.name}: no work pool is named {pool}; nothing was deployed. Create it, or choose "
                f"one of: {', '.join(POOLS)}"
            ) from error


def _set_up_deployment(client: SyncPrefectClient, plan: Planned) -> tuple[UUID, Change]:
    job, found, merged, flow = plan.job, plan.found, plan.merged, plan.job.load()
    told = describe(plan.differences)
    fixed: dict[str, Any] = {
        "entrypoint": job.entrypoint,
        "description": job.description(),
        "parameter_openapi_schema": plan.form,
        "enforce_parameter_schema": True,
        "pull_steps": [],
    }
    write_record(client, job.name, plan.wanted)
    as_wanted = found and all((getattr(found, name) or None) == (value or None) for name, value in fixed.items())
    if found and as_wanted and found.name == job.deployment and _changeable_of(found) == merged:
        return found.id, Change("deployment", job.name, "unchanged", told)
    limit = merged["limit"]
    made = client.create_deployment(
        flow_id=client.create_flow_from_name(flow.name),
        name=job.deployment,
        parameters=merged["parameters"],
        work_pool_name=merged["pool"],
        work_queue_name=merged["queue"],
        job_variables=merged["job_variables"],
        tags=merged["tags"],
        schedules=_schedules(merged["schedules"], found),
        concurrency_limit=limit,
        concurrency_options=ConcurrencyOptions(collision_strategy=ConcurrencyLimitStrategy.ENQUEUE) if limit else None,
        paused=found.paused if found else False,
        **fixed,
    )
    if found and found.id != made:  # it had another name
        client.delete_deployment(found.id)
    return made, Change("deployment", job.name, "updated" if found else "created", told)


def _schedules(merged: Mapping[str, Any], found: DeploymentResponse | None) -> list[DeploymentScheduleCreate]:
    """Returns the schedules of a deployment: ours, active or not as people have set them, and those of people."""
    known = {schedule.slug: schedule for schedule in found.schedules} if found else {}
    ours = [
        DeploymentScheduleCreate(
            schedule=CronSchedule(cron=wanted["cron"], timezone=wanted["timezone"]),
            slug=slug,
            active=known[slug].active if slug in known else True,
        )
        for slug, wanted in merged.items()
        if "cron" in wanted
    ]
    others = {slug for slug, wanted in merged.items() if "cron" not in wanted}
    return ours + [
        DeploymentScheduleCreate(
            schedule=theirs.schedule, slug=theirs.slug, active=theirs.active, parameters=theirs.parameters
        )
        for theirs in (found.schedules if found else ())
        if not theirs.slug or theirs.slug in others
    ]


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
