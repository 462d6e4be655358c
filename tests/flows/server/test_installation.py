"""The installation file is the one source of what is deployed; what people set in the UI survives and is shown."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import DeploymentUpdate, GlobalConcurrencyLimitUpdate
from prefect.client.schemas.schedules import CronSchedule, IntervalSchedule

from flows.jobs.limits import MODELS
from flows.server.deploy import deploy
from flows.server.deployments import CATALOGUE
from flows.server.kept import ABSENT, merge
from flows.server.settings import DeploySettings, Installation, find_installation
from schemas.errors import UsageError

WEEKLY = "weekly/arena-weekly"
JOBS = [job for job in CATALOGUE if job.name in ("weekly", "clean-up")]


@pytest.mark.parametrize(
    ("before", "there", "wanted", "merged", "kept"),
    [
        (1, 1, 2, 2, []),  # the file has changed
        (1, 3, 1, 3, ["3, 1"]),  # a person has changed it
        (1, 3, 2, 3, ["3, 2"]),  # both have
        (1, 2, 2, 2, []),  # both, to the same
        (ABSENT, 3, 1, 3, ["3, 1"]),  # nothing is known: it may be a person's
        (
            {"a": 1, "b": 1},
            {"a": 1, "b": 5, "c": 7},
            {"a": 2, "b": 1},
            {"a": 2, "b": 5, "c": 7},
            ["5, 1", "7, nothing"],
        ),
        ({"a": 1}, {"a": 1}, {}, {}, []),
        ({"a": 1}, {}, {"a": 1, "b": 2}, {"b": 2}, ["nothing, 1"]),
    ],
)
def test_what_a_person_has_set_is_kept_and_what_the_file_changes_is_taken(before, there, wanted, merged, kept):
    found, differences = merge(before, there, wanted)
    assert found == merged
    assert [f"{there}, {wanted}" for _, there, wanted in differences] == kept


def write(folder: Path, text: str) -> Path:
    path = folder / "installation.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("gpu_pol: cpu", "gpu_pol: Extra inputs"),
        ("jobs: {weekly: {schedule: {cron: '0 6 * *', timezone: UTC}}}", "jobs.weekly.schedule"),
        ("jobs: {weekly: {schedule: {cron: '0 61 * * 2', timezone: UTC}}}", "jobs.weekly.schedule"),
        (
            "jobs: {weekly: {schedule: {cron: '0 6 * * 2', timezone: Mars/Olympus}}}",
            "no time zone is named Mars/Olympus",
        ),
        ("notify: slack", "notify: String should match"),
        ("jobs: [weekly]", "jobs: Input should be a valid dictionary"),
        ("{", "nothing was deployed"),
        ("- a", "the file: Input should be"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_the_place(text, told, tmp_path, monkeypatch):
    monkeypatch.setenv("ARENA_INSTALLATION", str(write(tmp_path, text)))
    with pytest.raises(UsageError, match=r"installation file .*nothing was deployed") as refused:
        find_installation()
    assert told in str(refused.value) and "\n" not in str(refused.value)


def test_an_option_counts_in_place_of_the_files_value(tmp_path, monkeypatch):
    monkeypatch.setenv("ARENA_INSTALLATION", str(write(tmp_path, "gpu_pool: cpu\nmodel_stages: 5\n")))
    found = find_installation(DeploySettings(model_stages=3))
    assert (found.gpu_pool, found.model_stages) == ("cpu", 3)
    assert find_installation(path=write(tmp_path, "")) == Installation()
    with pytest.raises(UsageError, match=r"none\.yaml"):
        find_installation(path=tmp_path / "none.yaml")


@pytest.fixture
def client(prefect_server: None) -> Iterator[SyncPrefectClient]:
    """Of a server on which nothing of the jobs is deployed."""
    with get_client(sync_client=True) as client:
        for found in client.read_deployments():
            client.delete_deployment(found.id)
        for variable in client.read_variables():
            client.delete_variable_by_name(variable.name)
        yield client


def installed(way: str, cron: str = "0 6 * * 2") -> Installation:
    weekly = {"parameters": {"settings": {"way": way}}, "schedule": {"cron": cron, "timezone": "Europe/Berlin"}}
    return Installation.model_validate({"jobs": {"weekly": weekly}})


def told(changes: list[Any]) -> str:
    return "; ".join(change.kept for change in changes if change.kept)


def test_the_file_sets_parameters_schedule_and_pool_and_what_people_saved_survives_it(client):
    deploy(client, installed("diffs"), JOBS)
    found = client.read_deployment_by_name(WEEKLY)
    (schedule,) = found.schedules
    assert found.parameters == {"settings": {"way": "diffs"}} and found.tags == ["arena", "week"]
    assert isinstance(schedule.schedule, CronSchedule) and schedule.schedule.timezone == "Europe/Berlin"

    saved = {"settings": {"way": "whole", "source": "mirror"}}
    client.create_deployment_schedules(found.id, [(IntervalSchedule(interval=timedelta(days=1)), False)])
    client.update_deployment(found.id, DeploymentUpdate(parameters=saved, tags=["arena", "mine"]))
    client.update_global_concurrency_limit(MODELS, GlobalConcurrencyLimitUpdate(limit=7))

    again = deploy(client, installed("diffs"), JOBS)
    assert "parameters.settings.way is 'whole' on the server, 'diffs' in the installation" in told(again)
    assert "parameters.settings.source is 'mirror' on the server, nothing in the installation" in told(again)
    changed = deploy(client, installed("diffs", "0 7 * * 2"), JOBS)  # nobody has changed the time: the file's is taken
    found = client.read_deployment_by_name(WEEKLY)
    assert found.parameters == saved and set(found.tags) == {"arena", "mine"}
    crons = [s.schedule.cron for s in found.schedules if isinstance(s.schedule, CronSchedule)]
    others = [s.active for s in found.schedules if isinstance(s.schedule, IntervalSchedule)]
    assert (crons, others) == (["0 7 * * 2"], [False])
    assert client.read_global_concurrency_limit_by_name(MODELS).limit == 7
    assert {c.what for c in again} == {"unchanged"}
    assert [c.name for c in changed if c.what == "updated"] == ["weekly"]

    deploy(client, installed("diffs").model_copy(update={"site": "/srv/site"}), JOBS, overwrite=["weekly"])
    found = client.read_deployment_by_name(WEEKLY)
    assert found.parameters == {"settings": {"site": "/srv/site", "way": "diffs"}}
    client.update_global_concurrency_limit(MODELS, GlobalConcurrencyLimitUpdate(limit=2))


@pytest.mark.parametrize(
    ("jobs", "why"),
    [
        ({"wekly": {}}, "no job is named wekly; there are: .*weekly"),
        (
            {"weekly": {"parameters": {"settings": {"way": "sideways"}}}},
            "job weekly: settings.way: 'sideways' is not one",
        ),
        ({"weekly": {"parameters": {"seting": 1}}}, "seting: there is no such parameter"),
        ({"weekly": {"parameters": {"settings": {"runs": {"baselines": ["titel"]}}}}}, "'titel' is not one of"),
        ({"clean-up": {"pool": "no-such-pool"}}, "no work pool is named no-such-pool"),
    ],
)
def test_everything_is_checked_before_anything_is_changed(client, jobs, why):
    with pytest.raises(UsageError, match=why):
        deploy(client, Installation.model_validate({"jobs": jobs}), JOBS)
    with pytest.raises(UsageError, match="no notification block slack-webhook/nobody"):
        deploy(client, Installation(notify="slack-webhook/nobody"), JOBS)
    assert client.read_deployments() == [] and client.read_variables() == []


def test_what_was_saved_in_the_ui_and_is_no_longer_taken_is_told_before_anything_is_changed(client):
    deploy(client, None, JOBS)
    weekly = client.read_deployment_by_name(WEEKLY)
    saved = DeploymentUpdate(parameters={"settings": {"gone": 1}}, enforce_parameter_schema=False)
    client.update_deployment(weekly.id, saved)
    with pytest.raises(UsageError, match=r"job weekly: settings: .*'gone'.*arena deploy --overwrite weekly"):
        deploy(client, Installation.model_validate({"jobs": {"clean-up": {"schedule": "none"}}}), JOBS)
    assert client.read_deployment_by_name("clean-up/clean-up").schedules
    deploy(client, None, JOBS, overwrite=["weekly"])


def test_a_deployment_of_the_former_name_gets_its_new_name_and_keeps_what_people_set(client):
    former = [job.model_copy(update={"shown_as": None}) for job in JOBS]
    deploy(client, None, former)
    old = client.read_deployment_by_name("weekly/weekly")
    client.update_deployment(old.id, DeploymentUpdate(parameters={"settings": {"way": "whole"}}, paused=True))
    deploy(client, None, JOBS)
    assert {found.name for found in client.read_deployments()} == {"arena-weekly", "clean-up"}
    found = client.read_deployment_by_name(WEEKLY)
    assert found.parameters == {"settings": {"way": "whole"}} and found.paused
