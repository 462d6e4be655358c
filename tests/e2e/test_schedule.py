"""Deployments that run by themselves: at the right local time, and not while they are paused."""

import time
import uuid
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from flows.server.deployments import CATALOGUE
from tests.e2e.conftest import Site, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
FIELDS = ("minute", "hour", "day", "month", "weekday")
SCHEDULED = [job for job in CATALOGUE if job.schedule]


def coming(site: Site, deployment: str) -> list[dict]:
    """Runs that the server's scheduler has made and that nobody has begun."""
    wanted = {"deployments": {"id": {"any_": [deployment]}}, "flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}}}
    return [run for run in site.post("/flow_runs/filter", wanted) if run["auto_scheduled"]]


def test_an_event_starts_the_weekly_job_once_a_release(site):
    weekly = site.deployment("weekly")["id"]
    said = {
        "event": "arena.release.available",
        "resource": {"prefect.resource.id": "arena.release.2026-02-03", "prefect.resource.name": "2026-02-03"},
    }

    def started() -> list[dict]:
        found = site.post("/flow_runs/filter", {"deployments": {"id": {"any_": [weekly]}}})
        return [run for run in found if run["created_by"] and run["created_by"]["type"] == "AUTOMATION"]

    assert not started()
    for _ in range(2):
        site.post("/events", [said | {"id": str(uuid.uuid4()), "occurred": datetime.now(UTC).isoformat()}])
    runs = wait_for("the event starts a run", started, 60)
    for run in runs:  # it would call a service on the web
        site.post(f"/flow_runs/{run['id']}/set_state", {"state": {"type": "CANCELLED"}, "force": True})
    time.sleep(5)
    assert len(started()) == 1


@pytest.mark.parametrize("job", SCHEDULED, ids=lambda job: job.name)
def test_runs_are_scheduled_within_90_s_at_the_right_local_time_until_the_schedule_is_paused(site, job):
    cron = job.schedule.cron.split()
    wanted = {name: int(value) for name, value in zip(FIELDS, cron, strict=True) if value.isdigit()}
    deployment = site.deployment(job.name)
    runs = wait_for("runs are scheduled", lambda: coming(site, deployment["id"]), 90)

    for run in runs:
        local = datetime.fromisoformat(run["expected_start_time"]).astimezone(ZoneInfo(job.schedule.timezone))
        moment = (local.minute, local.hour, local.day, local.month, local.isoweekday() % 7)
        found = dict(zip(FIELDS, moment, strict=True))
        assert wanted.items() <= found.items()
        waited = datetime.fromisoformat(run["created"]) - datetime.fromisoformat(deployment["created"])
        assert waited.total_seconds() < 90

    site.post(f"/deployments/{deployment['id']}/pause_deployment", {})
    wait_for("no run is scheduled while it is paused", lambda: not coming(site, deployment["id"]), 30)
    site.post(f"/deployments/{deployment['id']}/resume_deployment", {})
    assert wait_for("runs are scheduled again", lambda: coming(site, deployment["id"]), 90)
