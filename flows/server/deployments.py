"""The jobs that a Prefect server offers, as data: one deployment each.

`arena deploy` and `infra/prefect.yaml` both come from `deployment_entry`, so they cannot differ.
"""

import sys
from importlib import import_module
from typing import Any, Literal, NotRequired, TypedDict, cast
from zoneinfo import ZoneInfo

import yaml
from prefect import Flow
from pydantic import BaseModel, ConfigDict, Field, field_validator

PoolName = Literal["cpu", "gpu"]
QueueName = Literal["default", "repair"]

POOLS: dict[PoolName, str] = {
    "cpu": "Everything that needs no GPU; as many workers as there are machines.",
    "gpu": "Embeddings, FAISS and served models: one worker per GPU, started with --limit 1 and CUDA_VISIBLE_DEVICES.",
}
"""Work pools, with what each is for."""

QUEUES: dict[QueueName, int] = {"repair": 1, "default": 2}
"""Queues of every pool, with their priority. 1 is served first, so that a repair does not wait for a week's work."""

ENVIRONMENT: dict[str, str] = {
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
    "PREFECT_LOGGING_EXTRA_LOGGERS": "tasks,flows",
}
"""Environment of every run: heartbeats for the automation on lost runs, and the stages' log lines in the UI."""


class Schedule(BaseModel):
    """When a deployment runs by itself: a cron line in local time, so that daylight saving time does not move it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cron: str = Field(pattern=r"^\S+( \S+){4}$", description="Minute, hour, day, month, day of the week.")
    timezone: str = Field(description="IANA name, for example America/New_York.")

    @field_validator("timezone")
    @classmethod
    def _known(cls, name: str) -> str:
        ZoneInfo(name)
        return name


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
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z][a-z0-9-]*$")
    entrypoint: str = Field(pattern=r"^flows\.jobs(\.[a-z_]+){2}$")
    pool: PoolName = "cpu"
    queue: QueueName = "default"
    schedule: Schedule | None = None
    limit: int | None = Field(default=None, ge=1)
    parameters: dict[str, Any] = Field(default_factory=dict)

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
        entrypoint="flows.jobs.weekly.weekly",
        pool="gpu",
        schedule=Schedule(cron="0 6 * * 2", timezone=_HOME),
        limit=1,
    ),
    Job(
        name="resync",
        entrypoint="flows.jobs.resync.resync",
        schedule=Schedule(cron="0 6 3 */3 *", timezone=_HOME),
        limit=1,
    ),
    Job(name="build-corpus", entrypoint="flows.jobs.build_corpus.build_corpus"),
    Job(name="build-index", entrypoint="flows.jobs.build_index.build_index", pool="gpu"),
    Job(name="discovery", entrypoint="flows.jobs.ranking.discovery"),
    Job(name="selection", entrypoint="flows.jobs.ranking.selection"),
    Job(name="organization", entrypoint="flows.jobs.organization.organization"),
    Job(name="paper-search", entrypoint="flows.jobs.search.paper_search"),
    Job(name="paperqa", entrypoint="flows.jobs.paperqa.paperqa"),  # waits for models most of the time: a GPU would idle
    Job(name="rerun-stage", entrypoint="flows.jobs.rerun.rerun_stage", queue="repair"),
    Job(name="rerun-stage-gpu", entrypoint="flows.jobs.rerun.rerun_stage", pool="gpu", queue="repair"),
    Job(
        name="clean-up",
        entrypoint="flows.jobs.clean_up.clean_up",
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
    parameters: dict[str, Any]
    enforce_parameter_schema: bool
    work_pool: WorkPool
    schedules: NotRequired[list[Cron]]
    concurrency_limit: NotRequired[Limit]


def deployment_entry(job: Job, gpu_pool: PoolName = "gpu") -> Entry:
    """Returns a job's deployment; jobs of the GPU pool go to `gpu_pool`."""
    entry: Entry = {
        "name": job.name,
        "entrypoint": job.entrypoint,
        "description": job.description(),
        "parameters": dict(job.parameters),
        "enforce_parameter_schema": True,
        "work_pool": {
            "name": gpu_pool if job.pool == "gpu" else job.pool,
            "work_queue_name": job.queue,
            "job_variables": {"env": dict(ENVIRONMENT)},
        },
    }
    if job.schedule:
        entry["schedules"] = [{"slug": job.name, "cron": job.schedule.cron, "timezone": job.schedule.timezone}]
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
