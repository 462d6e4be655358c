"""Shows what a command would take, for its option `--plan`."""

from collections.abc import Sequence

from flows.commands.terminal import show_json, show_rows
from flows.pipeline.plans.steps import Step
from flows.pipeline.walk import Pipeline
from schemas.settings import Resources


def show_plan(pipeline: Pipeline, steps: Sequence[Step], resources: Resources, json: bool) -> None:
    """Prints rows, disk, memory and hours of each step.

    Raises:
        StoreError: Disk or memory do not suffice.
    """
    from flows.pipeline.capacity import plan_capacity

    plan = plan_capacity(pipeline.store, pipeline.edition, steps, resources)
    rows = [stage._asdict() for stage in plan.stages]
    if json:
        totals = {"hours": plan.hours, "disk_gb": plan.disk_gb, "free_gb": plan.free_gb, "buckets": plan.buckets}
        show_json({"edition": pipeline.edition, "plan": rows, **totals})
    else:
        show_rows(rows, f"edition {pipeline.edition}: {plan.summary()}", decimals=2)
    plan.require_enough()
