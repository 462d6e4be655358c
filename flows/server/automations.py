"""What the server does by itself: marks lost runs, starts the weekly job, tells people."""

from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from prefect.client.schemas.objects import StateType
from prefect.events.actions import ChangeFlowRunState, RunDeployment, SendNotification
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.events.schemas.events import ResourceSpecification

from flows.jobs.events import EDITION_PUBLISHED, RELEASE_AVAILABLE, RELEASE_REFUSED, STAGE_FAILED
from flows.server.deployments import TAG

HEARTBEAT_TIMEOUT = timedelta(seconds=90)
"""A run without a heartbeat for this long is lost; heartbeats come every 30 s."""

WEEK = timedelta(days=6)

FINAL_EVENTS = [f"prefect.flow-run.{state}" for state in ("Completed", "Failed", "Cancelled", "Crashed")]


class Trouble(NamedTuple):
    """A state of a run that people are told of: how it is called, and what to do."""

    state: str
    what: str
    remedy: str


TROUBLES = (
    Trouble("Failed", "failed", "mend the cause that the message names, then press Retry: what is finished is kept"),
    Trouble("Crashed", "crashed", "its process or machine is gone; press Retry: what is finished is kept"),
    Trouble("Late", "is late", "no worker has taken it: look under Work Pools whether one is running and free"),
)

RUN_TEXT = """{{{{ flow_run.name }}}} {what}: {{{{ flow_run.state.message or "no message" }}}}
What to do: {remedy}.
Run: {{{{ flow_run|ui_url or "runs/flow-run/" ~ flow_run.id }}}}
Parameters: {{{{ flow_run.parameters }}}}"""
"""The notification about a run; the name of a weekly run holds the release."""

EVENT_TEXTS = {
    EDITION_PUBLISHED: "Edition {{ event.payload.edition }} of release {{ event.payload.release }} was published.",
    RELEASE_REFUSED: "Release {{ event.payload.release }} was refused and is not built: {{ event.payload.reason }}\n"
    "What to do: look at the release; where it is right after all, run: "
    'arena release check {{ event.payload.release }} --accept "why"',
    STAGE_FAILED: "Stage {{ event.payload.slot }} failed: {{ event.payload.cause }}",
}
"""The notification about an event of ours."""


def automations(deployed: dict[str, UUID], block: UUID | None) -> list[AutomationCore]:
    """Returns what the server does by itself.

    Args:
        deployed: Ids of the deployments, by job.
        block: The block that notifies people; None: nobody is told.
    """
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
            *(_notify_of_run(block, trouble) for trouble in TROUBLES),
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
    return AutomationCore(
        name=name,
        trigger=_event(event, resource),
        actions=[SendNotification(block_document_id=block, subject=name, body=EVENT_TEXTS[event])],
    )


def _notify_of_run(block: UUID, trouble: Trouble) -> AutomationCore:
    """Tells people of a run of ours: its deployment has our tag."""
    trigger = _event(f"prefect.flow-run.{trouble.state}", "prefect.flow-run.*")
    ours = ResourceSpecification({"prefect.resource.id": f"prefect.tag.{TAG}", "prefect.resource.role": "tag"})
    body = RUN_TEXT.format(what=trouble.what, remedy=trouble.remedy)
    subject = f"arena: {{{{ flow_run.name }}}} {trouble.what}"
    return AutomationCore(
        name=f"arena: a run {trouble.what}",
        trigger=trigger.model_copy(update={"match_related": ours}),
        actions=[SendNotification(block_document_id=block, subject=subject, body=body)],
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
