"""The catalogue of deployments: each job loads and takes no secret, and the server refuses wrong values."""

import os
import re
import subprocess
import sys
from zoneinfo import ZoneInfo

import pytest
import yaml
from prefect import Flow
from prefect.client.orchestration import get_client
from prefect.exceptions import PrefectHTTPStatusError
from prefect.flows import load_flow_from_entrypoint
from prefect.settings import get_current_settings
from prefect.utilities.callables import parameter_schema
from pydantic import ValidationError

from flows.server.deploy import deploy
from flows.server.deployments import CATALOGUE, POOLS, QUEUES, Job, prefect_file
from flows.server.settings import DeploySettings, Schedule
from tests.conftest import REPOSITORY

PREFECT_FILE = REPOSITORY / "infra" / "prefect.yaml"
SECRET = re.compile(r"key|token|secret|password|credential|auth", re.IGNORECASE)


@pytest.mark.parametrize("job", CATALOGUE, ids=lambda job: job.name)
def test_every_job_can_be_loaded_as_a_worker_does_and_asks_for_no_secret(job):
    flow = load_flow_from_entrypoint(job.entrypoint)
    schema = parameter_schema(flow)

    assert isinstance(flow, Flow)
    assert job.pool in POOLS and job.queue in QUEUES
    assert job.description()
    assert set(job.parameters) <= set(schema.properties)
    names = {
        *schema.properties,
        *(name for model in schema.definitions.values() for name in model.get("properties", ())),
    }
    assert not [name for name in names if SECRET.search(name) and not name.endswith("tokens")]
    for name, field in schema.properties.items():
        assert field.get("description"), name


def test_the_file_for_prefect_deploy_says_what_the_catalogue_says():
    assert PREFECT_FILE.read_text() == prefect_file(), "run: python -m flows.server.deployments > infra/prefect.yaml"
    entries = yaml.safe_load(prefect_file())["deployments"]
    assert [entry["name"] for entry in entries] == [job.deployment for job in CATALOGUE]
    assert min(job.deployment for job in CATALOGUE) == "arena-weekly", "the first of a list sorted by name"
    assert len({job.name for job in CATALOGUE}) == len(CATALOGUE)


@pytest.mark.e2e
@pytest.mark.usefixtures("prefect_server")
def test_prefect_deploy_with_the_file_and_arena_deploy_make_the_same_deployments():
    with get_client(sync_client=True) as client:
        deploy(client)
        for deployment in client.read_deployments():
            client.delete_deployment(deployment.id)
        command = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all", "--prefect-file", PREFECT_FILE]
        subprocess.run(
            command,
            check=True,
            capture_output=True,
            cwd=REPOSITORY,
            env=get_current_settings().to_environment_variables() | os.environ,
        )
        forms, again = ([change for change in deploy(client) if change.kind == "deployment"] for _ in range(2))

    assert {change.name for change in forms} == {job.name for job in CATALOGUE}
    assert {(change.what, change.kept) for change in forms} == {("updated", "")}, "it has no forms, and the same values"
    assert {change.what for change in again} == {"unchanged"}


def test_a_schedule_needs_a_known_time_zone_and_five_fields():
    assert ZoneInfo(Schedule(cron="0 6 * * 3", timezone="Europe/Berlin").timezone)
    with pytest.raises(ValidationError):
        Schedule(cron="0 6 * *", timezone="UTC")
    with pytest.raises((ValidationError, KeyError)):
        Schedule(cron="0 6 * * 3", timezone="Mars/Olympus")


@pytest.mark.usefixtures("prefect_server")
def test_deploying_again_changes_nothing_and_what_people_paused_stays_paused():
    with get_client(sync_client=True) as client:
        first = deploy(client)
        cleaning = client.read_deployment_by_name("clean-up/clean-up")
        client.update_deployment_schedule(cleaning.id, cleaning.schedules[0].id, active=False)
        names = [f"{job.load().name}/{job.deployment}" for job in CATALOGUE]
        before = [client.read_deployment_by_name(name).updated for name in names]
        second = deploy(client)
        after = [client.read_deployment_by_name(name).updated for name in names]
        moved = deploy(client, DeploySettings(gpu_pool="cpu"))
        pools = {d.name: d.work_pool_name for d in client.read_deployments()}
        back = deploy(client)
        paused = client.read_deployment(cleaning.id).schedules

    assert {change.what for change in first} <= {"created", "unchanged"}
    assert [change for change in second if change.what != "unchanged"] == []
    assert before == after
    gpu = {job.name for job in CATALOGUE if job.pool == "gpu"}
    assert {change.name for change in moved if change.what == "updated"} == gpu
    assert {change.name for change in back if change.what == "updated"} == gpu
    assert {pools[name] for name in gpu} == {"cpu"}
    assert [schedule.active for schedule in paused] == [False]


@pytest.mark.usefixtures("prefect_server")
@pytest.mark.parametrize(
    ("name", "parameters", "what"),
    [
        ("build-corpus/build-corpus", {"settings": {"line_mib": 5000}}, "1024"),
        ("build-corpus/build-corpus", {"settings": {"corpus": "everything"}}, "full_text"),
        ("rerun-stage/rerun-stage", {"edition": "e", "stage": "no-such-stage"}, "paper_records"),
        ("rerun-stage/rerun-stage", {"stage": "papers"}, "edition"),
        ("rerun-stage/rerun-stage", {"edition": "../e", "stage": "papers"}, "match"),
        ("clean-up/clean-up", {"keep_runs_days": 0}, "minimum"),
        ("discovery/discovery", {"settings": {"baselines": ["titel"]}}, "'titel' is not one of"),
        ("discovery/discovery", {"expert": {"settings": {"limit_topics": 0}}}, "limit_topics"),
        ("discovery/discovery", {"machine": {"wokers": 1}}, "wokers"),
        ("build-corpus/build-corpus", {"settings": {"survey_selector": "rulez"}}, "rulez"),
        (
            "paperqa/paperqa",
            {"files": {"questions": "q", "metadata": "m"}, "settings": {"baselines": ["title"]}},
            "title",
        ),
    ],
)
def test_the_server_refuses_wrong_values_and_makes_no_run(name, parameters, what):
    with get_client(sync_client=True) as client:
        deploy(client, jobs=[job for job in CATALOGUE if name.endswith(f"/{job.name}")])
        deployment = client.read_deployment_by_name(name)
        before = client.read_flow_runs(limit=200)
        with pytest.raises(PrefectHTTPStatusError) as refused:
            client.create_flow_run_from_deployment(deployment.id, parameters=parameters)
        after = client.read_flow_runs(limit=200)

    assert refused.value.response.status_code in (409, 422)
    assert what in refused.value.response.text
    assert {run.id for run in after} == {run.id for run in before}


def test_a_job_names_its_flow_by_module():
    with pytest.raises(ValidationError, match="entrypoint"):
        Job(name="x", entrypoint="flows/jobs/build_corpus.py:build_corpus", kind="build")
