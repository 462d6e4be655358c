"""What the Prefect UI shows of a run as a whole: its name, and one progress artifact over all its stages."""

import os
import re
import signal
import time
from typing import cast
from uuid import UUID

import httpx
from prefect import get_run_logger
from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.client.orchestration import get_client
from prefect.context import FlowRunContext

from flows.jobs.artifact_texts import artifact_key, escape
from flows.pipeline.pace import show_seconds
from tasks.store.parent import END_WITH_WORKER, end_with_parent

REPORT_INTERVAL = 3.0
"""Seconds between two progress updates of a run."""

GENERATED = re.compile(r"[a-z]+-[a-z]+|[A-Z][a-z]+-[A-Z][a-z]+")
"""A name that Prefect made up, such as `brave-otter`. Any other was given by a person, and stays."""

_under_way: dict[UUID, "RunProgress"] = {}


class RunProgress:
    """The progress artifact of a run: created with its first stage, updated every few seconds, at 100 % in the end.

    Args:
        name: The run's name.
        walks: How many walks over stages the run takes; each has an equal share of the 100 %.
    """

    def __init__(self, name: str, walks: int) -> None:
        self._name, self._walks = name, walks
        self._walk, self._index, self._stages = 0, -1, 1
        self._artifact: UUID | None = None
        self._began = self._shown_at = time.monotonic()

    def enter(self, place: tuple[int, int], slot: str) -> None:
        """Shows that a stage begins.

        Args:
            place: Which stage of its walk it is, from 0, and how many there are.
            slot: Its slot.
        """
        index, self._stages = place
        self._walk += index <= self._index
        self._index = index
        self.show(0.0, slot)

    def show(self, part: float, told: str) -> None:
        """Shows how much of the stage is done, 0 to 1, if the last time is some seconds ago."""
        walk = min(self._walk, self._walks - 1)
        done = (walk + (self._index + part) / max(self._stages, 1)) / self._walks
        if self._artifact is None or time.monotonic() - self._shown_at >= REPORT_INTERVAL:
            self._write(min(99.0, round(100 * done, 1)), told)

    def finish(self) -> None:
        """Shows that the run has done its work."""
        self._write(100.0, f"finished in {show_seconds(time.monotonic() - self._began)}")

    def _write(self, percent: float, told: str) -> None:
        self._shown_at = time.monotonic()
        description = escape(f"{self._name}: {told}")
        try:
            if self._artifact is None:
                key = artifact_key("progress", self._name)
                self._artifact = cast(UUID, create_progress_artifact(percent, key=key, description=description))
            else:
                update_progress_artifact(self._artifact, percent, description)
        except httpx.HTTPError as error:
            get_run_logger().warning("progress of %s is not shown: %s", self._name, error)


def begin_run(name: str, walks: int = 1) -> None:
    """Gives the current run its name, starts its progress, and ties it to a worker that asks for it.

    Args:
        name: What it does, and to what: `weekly 2026-01-13`. A name that a person has given stays.
        walks: How many walks over stages it takes.
    """
    if os.environ.get(END_WITH_WORKER):
        end_with_parent(signal.SIGKILL)
    if run := _current():
        _under_way[run] = RunProgress(name, walks)
        name_run(name)


def name_run(name: str) -> None:
    """Names the current run, unless a person has named it."""
    context = FlowRunContext.get()
    if not context or not context.flow_run or not GENERATED.fullmatch(context.flow_run.name):
        return
    try:
        with get_client(sync_client=True) as client:
            client.set_flow_run_name(context.flow_run.id, name)
        context.flow_run.name = name
    except httpx.HTTPError as error:
        get_run_logger().warning("the run keeps the name %s: %s", context.flow_run.name, error)


def run_progress() -> RunProgress | None:
    """Returns the progress of the current run; None for a run that did not begin one."""
    run = _current()
    return _under_way.get(run) if run else None


def finish_run() -> None:
    """Shows that the current run has done its work."""
    if (run := _current()) and (progress := _under_way.pop(run, None)):
        progress.finish()


def _current() -> UUID | None:
    context = FlowRunContext.get()
    return context.flow_run.id if context and context.flow_run else None
