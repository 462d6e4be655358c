"""The jobs that a Prefect server offers, as data: one deployment each.

`arena deploy` and `infra/prefect.yaml` both come from `deployment_entry`, so they cannot differ.
"""

import sys
from importlib import import_module
from typing import Any, Literal, NotRequired, TypedDict, cast

import yaml
from prefect import Flow
from pydantic import BaseModel, ConfigDict, Field

from flows.server.settings import Installation, JobSettings, Schedule

PoolName = Literal["cpu", "gpu"]
QueueName = Literal["default", "repair"]

POOLS: dict[PoolName, str] = {
    "cpu": "Everything that needs no GPU; as many workers as there are machines.",
    "gpu": "Embeddings, FAISS and served models: one worker per GPU, started with --limit 1 and CUDA_VISIBLE_DEVICES.",
}
"""Work pools, with what each is for."""

QUEUES: dict[QueueName, int] = {"repair": 1, "default": 2}
"""Queues of every pool, with their priority. 1 is served first, so that a repair does not wait for a week's work."""

TAG = "arena"
"""Tag of every deployment of this project, and so of its runs: notifications are about these runs alone."""

ENVIRONMENT: dict[str, str] = {
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
    "PREFECT_LOGGING_EXTRA_LOGGERS": "tasks,flows",
}
"""Environment of every run: heartbeats for the automation on lost runs, and the stages' log lines in the UI."""


class Job(BaseModel):
    """One deployment.

    Attributes:
        name: The deployment's name.
        entrypoint: Module and flow, as `package.module.flow`: found wherever the package is installed.
        pool: The pool whose workers run it.
        queue: Which of the pool's queues.
        schedule: When it runs by itself; None: when someone or an event starts it.
        limit: How many of its runs may be under way; others wait their turn. None: any number.
        parameters: What differs from the flow's defaults. No secrets: parameters are stored and shown.
        kind: What sort of job it is: a tag of the deployment and of its runs.
        shown_as: Name of the deployment where it is another than the job's, so that it sorts elsewhere in lists.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z][a-z0-9-]*$")
    entrypoint: str = Field(pattern=r"^flows\.jobs(\.[a-z_]+){2}$")
    pool: PoolName = "cpu"
    queue: QueueName = "default"
    schedule: Schedule | None = None
    limit: int | None = Field(default=None, ge=1)
    parameters: dict[str, Any] = Field(default_factory=dict)
    kind: Literal["week", "build", "systems", "repair", "housekeeping"]
    shown_as: str | None = None

    @property
    def deployment(self) -> str:
        """The deployment's name."""
        return self.shown_as or self.name

    def load(self) -> Flow[Any, Any]:
        """Imports the flow and returns it."""
        module, _, name = self.entrypoint.rpartition(".")
        return cast("Flow[Any, Any]", getattr(import_module(module), name))

    def description(self) -> str:
        """Returns the flow's description without its parameters, which the form explains one by one."""
        return (self.load().description or "").partition("\n\nArgs:")[0].strip()


_HOME = "America/New_York"

CATALOGUE: tuple[Job, ...] = (
    Job(
        name="weekly",
        shown_as="arena-weekly",  # lists are sorted by name, and this is what people look for
        entrypoint="flows.jobs.weekly.weekly",
        kind="week",
        schedule=Schedule(cron="0 6 * * 2", timezone=_HOME),
        limit=1,
    ),
    Job(
        name="resync",
        entrypoint="flows.jobs.resync.resync",
        kind="housekeeping",
        schedule=Schedule(cron="0 6 3 */3 *", timezone=_HOME),
        limit=1,
    ),
    Job(name="build-corpus", entrypoint="flows.jobs.build_corpus.build_corpus", kind="build"),
    Job(name="build-index", entrypoint="flows.jobs.build_index.build_index", kind="build", pool="gpu"),
    Job(name="discovery", entrypoint="flows.jobs.ranking.discovery", kind="systems"),
    Job(name="selection", entrypoint="flows.jobs.ranking.selection", kind="systems"),
    Job(name="organization", entrypoint="flows.jobs.organization.organization", kind="systems"),
    Job(name="paper-search", entrypoint="flows.jobs.search.paper_search", kind="systems"),
    Job(name="paperqa", entrypoint="flows.jobs.paperqa.paperqa", kind="systems"),
    Job(name="rerun-stage", entrypoint="flows.jobs.rerun.rerun_stage", kind="repair", queue="repair"),
    Job(name="rerun-stage-gpu", entrypoint="flows.jobs.rerun.rerun_stage", kind="repair", pool="gpu", queue="repair"),
    Job(
        name="clean-up",
        entrypoint="flows.jobs.clean_up.clean_up",
        kind="housekeeping",
        schedule=Schedule(cron="0 4 * * 0", timezone=_HOME),
        limit=1,
    ),
)
"""Every deployment. When `limit` is reached, further runs wait for their turn; none is dropped."""


class WorkPool(TypedDict):
    """Where the runs of a deployment go."""

    name: str
    work_queue_name: str
    job_variables: dict[str, dict[str, str]]


class Cron(TypedDict):
    """A schedule of a deployment."""

    slug: str
    cron: str
    timezone: str


class Limit(TypedDict):
    """How many runs of a deployment may be under way, and what happens to the others."""

    limit: int
    collision_strategy: str


class Entry(TypedDict):
    """A deployment as `prefect.yaml` writes it; `arena deploy` sends the same entry to the server."""

    name: str
    entrypoint: str
    description: str
    tags: list[str]
    parameters: dict[str, Any]
    enforce_parameter_schema: bool
    work_pool: WorkPool
    schedules: NotRequired[list[Cron]]
    concurrency_limit: NotRequired[Limit]


def deployment_entry(job: Job, installation: Installation | None = None) -> Entry:
    """Returns a job's deployment, with what the installation sets for it."""
    installation = installation or Installation()
    own = installation.jobs.get(job.name, JobSettings())
    schedule = None if own.schedule == "none" else own.schedule or job.schedule
    parameters = {**job.parameters, **own.parameters}
    if installation.site and job.name == "weekly":
        parameters["settings"] = {"site": installation.site, **parameters.get("settings", {})}
    entry: Entry = {
        "name": job.deployment,
        "entrypoint": job.entrypoint,
        "description": job.description(),
        "tags": [TAG, job.kind],
        "parameters": parameters,
        "enforce_parameter_schema": True,
        "work_pool": {
            "name": own.pool or (installation.gpu_pool if job.pool == "gpu" else job.pool),
            "work_queue_name": job.queue,
            "job_variables": {"env": dict(ENVIRONMENT)},
        },
    }
    if schedule:
        entry["schedules"] = [{"slug": job.name, "cron": schedule.cron, "timezone": schedule.timezone}]
    if job.limit:
        entry["concurrency_limit"] = {"limit": job.limit, "collision_strategy": "ENQUEUE"}
    return entry


def prefect_file() -> str:
    """Returns all deployments as a file for `prefect deploy`; pools, limits and automations need `arena deploy`."""
    head = "# Written by `python -m flows.server.deployments > infra/prefect.yaml`. `arena deploy` deploys the same.\n"
    deployments = [deployment_entry(job) for job in CATALOGUE]
    return head + yaml.safe_dump(
        {"name": "research-arena", "pull": [], "deployments": deployments}, sort_keys=False, width=120
    )


if __name__ == "__main__":
    sys.stdout.write(prefect_file())
