"""The one place where a stage becomes a Prefect task.

The store alone decides whether a stage has to execute; Prefect's result cache is not used. The task asks the store and
ends in the state `Cached` when the whole dataset is there. So the state is also right for a dataset that another
process built, and for one that was deleted
(docs/decisions/0004-cached-means-the-store-has-it.md).
"""

import time
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, cast

from prefect import Task, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.states import Completed
from prefect.tasks import exponential_backoff

from flows.jobs.events import emit_stage_failed
from flows.jobs.limits import acquire_slot
from flows.jobs.parameters import NEWEST
from flows.jobs.runs import REPORT_INTERVAL, run_progress
from flows.pipeline.machine import Machine
from flows.pipeline.pace import Pace, show_seconds
from flows.pipeline.stages import StageControl
from flows.pipeline.walk import Executor, Pipeline, StageLabel, build_labelled, choose_edition, newest_edition
from schemas.errors import TransientError
from schemas.manifest import Ref
from schemas.release import ReleaseDataset
from schemas.settings import Resources, Settings
from tasks.store.stage import AnyStage
from tasks.store.store import Request, Store
from tasks.store.workspace import Progress


def task_executor(store: Store, resources: Resources) -> Executor:
    """Returns an executor that runs each stage as one Prefect task of the calling flow run."""

    def execute(request: Request, label: StageLabel) -> Ref:
        named = _build_stage.with_options(name=request.stage.name, task_run_name=label.slot)
        # The inputs are an argument of their own because Prefect draws the edges of its graph from arguments.
        state = named(store, request.stage, request.settings, request.inputs, resources, label, return_state=True)  # pyright: ignore[reportCallIssue]
        if state.is_failed():
            emit_stage_failed(label.slot, state.message or "")
        return cast(Ref, state.result())

    return execute


def is_transient(task: Task[..., Any], run: TaskRun, state: State[Any]) -> bool:
    """Returns whether a failed task is retried: only after a transient error."""
    return isinstance(state.data, TransientError)


@task(
    retries=4,
    retry_delay_seconds=exponential_backoff(backoff_factor=5),
    retry_jitter_factor=0.5,
    retry_condition_fn=is_transient,
    cache_policy=NO_CACHE,
)
def _build_stage(
    store: Store,
    stage: AnyStage,
    settings: Settings,
    inputs: Mapping[str, Ref | ReleaseDataset],
    resources: Resources,
    label: StageLabel,
) -> State[Ref]:
    request = Request(stage, settings, inputs)
    executes = label.forced or store.find_whole(stage.name, request.key) is None
    progress = StageProgress(label)
    with acquire_slot(settings) if executes else nullcontext():
        built = build_labelled(store, request, resources, label, progress)
    if not built.executed:
        return Completed(name="Cached", message=f"{built.ref.key} is in the store", data=built.ref)
    progress.finish()
    counts = store.open(built.ref).manifest.counts
    dropped = ", ".join(f"{number} {reason}" for reason, number in sorted(counts.dropped.items())) or "nothing"
    get_run_logger().info("%s: read %d, kept %d, dropped %s", label.slot, counts.read, counts.kept, dropped)
    return Completed(message=f"{built.ref.key}: read {counts.read}, kept {counts.kept}", data=built.ref)


class StageProgress:
    """Logs how a stage goes on every few seconds, and shows it in the progress of the run.

    Args:
        label: Of the stage.
    """

    def __init__(self, label: StageLabel) -> None:
        self._slot, self._pace = label.slot, Pace()
        self._shown_at = time.monotonic()
        self._run = run_progress()
        if self._run:
            self._run.enter(label.place, label.slot)

    def __call__(self, progress: Progress) -> None:
        """Takes a report of the stage."""
        self._pace.update(progress.done, progress.total, progress.note)
        if time.monotonic() - self._shown_at >= REPORT_INTERVAL:
            self._shown_at = time.monotonic()
            get_run_logger().info("%s: %s", self._slot, self._pace)
            self._show_in_run(progress.done / max(progress.total, 1), str(self._pace))

    def finish(self) -> None:
        """Shows that the stage has ended."""
        self._show_in_run(1.0, f"finished in {show_seconds(self._pace.seconds)}")

    def _show_in_run(self, part: float, told: str) -> None:
        if self._run:
            self._run.show(part, f"{self._slot}: {told}")


def task_pipeline(machine: Machine, edition: str, control: StageControl) -> Pipeline:
    """Returns the pipeline of an existing edition (`newest`: of the newest release), whose stages are Prefect tasks."""
    store = Store(machine.root)
    name = newest_edition(store) if edition == NEWEST else choose_edition(store, edition)
    return Pipeline(store, name, task_executor(store, machine), control)
