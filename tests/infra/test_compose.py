"""The compose file and the images: pinned, watched, not root, without a secret; their versions are the project's."""

import os
import re
import shutil
import subprocess
import tarfile
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.pipeline.site import SITE_URL
from flows.server.environment import for_flows
from flows.service.serve import DESK_PORT, PAGES_PORT

INFRA = Path(__file__).parents[2] / "infra"
LOCKED = dict(
    line.split("==") for line in (INFRA.parent / "constraints.txt").read_text().splitlines() if not line.startswith("#")
)
BY_DIGEST = r"\$\{\w+_IMAGE:\?put (\w+_IMAGE)=[a-z]+:[\w.-]+@sha256:\.\.\. into infra/\.env\}"
"""An image that has to be named by its digest; nothing starts without one."""

DOCKERFILES = sorted((INFRA / "docker").glob("*.Dockerfile"))


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return yaml.safe_load((INFRA / "compose.yaml").read_text())


def test_every_service_is_pinned_watched_and_cannot_gain_rights(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        by_digest = rf"{BY_DIGEST}|\$\{{POSTGRES_IMAGE\}}"
        assert re.fullmatch(rf"research-arena-[a-z]+:\d+(\.\d+)+|{by_digest}", service["image"]), name
        assert re.fullmatch(r"\d+[gm]|\$\{[A-Z_]+_MEMORY:-\d+[gm]\}", service["mem_limit"]), f"{name}: no memory limit"
        assert "no-new-privileges:true" in service["security_opt"], name
        assert not service.get("privileged"), name
        if service["restart"] != "no":
            assert {"test", "interval", "timeout", "retries"} <= service["healthcheck"].keys(), name
            assert service["restart"] == "unless-stopped", name


def test_no_secret_stands_in_it_and_none_has_a_default(compose: dict[str, Any]) -> None:
    secret = re.compile("PASSWORD|AUTH_STRING|KEY|TOKEN|CONNECTION_URL")
    found = [
        value
        for service in compose["services"].values()
        for name, value in service.get("environment", {}).items()
        if secret.search(name)
    ]
    assert len(found) >= 6
    names = "PREFECT_AUTH_STRING|POSTGRES_PASSWORD|ARENA_SERVE_KEY"
    assert all(re.fullmatch(rf"\$\{{({names})(:\?[^}}]+)?\}}", value) for value in found)
    text = (INFRA / "compose.yaml").read_text()
    assert "${PREFECT_AUTH_STRING:?" in text
    assert "${POSTGRES_PASSWORD:?" in text
    given = dict(re.findall(r"^(\w+)=(.*)$", (INFRA / "env.example").read_text(), re.MULTILINE))
    needed = (
        "PREFECT_AUTH_STRING",
        "POSTGRES_PASSWORD",
        "PYTHON_IMAGE",
        "POSTGRES_IMAGE",
        "ARENA_BACKUP",
        "ARENA_SERVE_KEY",
    )
    assert given == dict.fromkeys(needed, "")


def test_only_the_uis_own_pages_may_call_the_api(compose: dict[str, Any]) -> None:
    server = compose["services"]["server"]["environment"]
    origin = server["PREFECT_SERVER_CORS_ALLOWED_ORIGINS"]
    assert server["PREFECT_SERVER_UI_API_URL"] == f"{origin}/api"
    assert re.fullmatch(r"\$\{PREFECT_PUBLIC_URL:-http://127\.0\.0\.1:\d+\}", origin)


def test_containers_get_the_variables_of_the_list_and_no_others(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        if name.endswith("-worker"):
            assert [variable for variable in service["environment"] if not for_flows(variable)] == []
    keys = re.findall(r"\b[A-Z][A-Z0-9_]+\b", (INFRA / "compose.yaml").read_text().split("# keys:")[1].splitlines()[0])
    assert keys and all(map(for_flows, keys))


def test_what_services_name_is_there(compose: dict[str, Any]) -> None:
    services = compose["services"]
    for name, service in services.items():
        for other, how in service.get("depends_on", {}).items():
            assert other in services, name
            healthy = how["condition"] == "service_healthy"
            assert healthy == ("healthcheck" in services[other]), f"{name} waits for {other}"
        for volume in service.get("volumes", []):
            source = re.sub(r"\$\{\w+:-([/\w]+)\}", r"\1", volume).split(":")[0]
            on_host = source.startswith(("./", "/", "${ARENA_BACKUP"))
            assert on_host or source in compose["volumes"], volume
            assert not source.startswith("./") or (INFRA / source).is_file(), volume
        if "build" in service:
            assert (INFRA / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
            assert re.fullmatch(BY_DIGEST, service["build"]["args"]["PYTHON_IMAGE"])


def test_workers_serve_the_pools_of_the_catalogue(compose: dict[str, Any]) -> None:
    from flows.server.deployments import POOLS

    commands = [service.get("command", []) for service in compose["services"].values()]
    workers = [command for command in commands if command[:3] == ["prefect", "worker", "start"]]
    assert {command[command.index("--pool") + 1] for command in workers} == set(POOLS)
    gpu = compose["services"]["gpu-worker"]
    assert gpu["command"][gpu["command"].index("--limit") + 1] == "1"
    assert gpu["deploy"]["resources"]["reservations"]["devices"][0]["capabilities"] == ["gpu"]


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.stem)
def test_images_are_locked_and_do_not_run_as_root(path: Path) -> None:
    text = path.read_text()
    assert re.findall(r"^FROM (\S+)", text, re.MULTILINE) == ["${PYTHON_IMAGE}"] * 2
    assert re.findall(r"^ARG PYTHON_IMAGE(.*)$", text, re.MULTILINE) == [""], "it has no default"
    hashed = f"--require-hashes --no-deps --requirement {path.stem}.lock"
    installs = re.findall(r"pip install ([^&\n]+)", text)
    assert hashed in installs
    for step in installs:
        assert step in (hashed, "--no-deps .") or step.endswith(f"torch=={LOCKED['torch']}"), step
    assert re.search(r"^USER (\d+:\d+)$", text, re.MULTILINE)
    ignored = Path(f"{path}.dockerignore").read_text().splitlines()
    copied = {word for line in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE) for word in line.split()}
    assert ignored[0] == "*"
    assert copied == {line[1:] for line in ignored if line.startswith("!")}
    project = tomllib.loads((INFRA.parent / "pyproject.toml").read_text())
    installed = project["tool"]["setuptools"]
    parts = [name.rstrip("*") for name in installed["packages"]["find"]["include"]]
    assert {*parts, *(f"{module}.py" for module in installed["py-modules"])} <= copied


def test_the_gpus_pool_is_cpu_unless_the_profile_is_on_and_people_can_be_told(compose: dict[str, Any]) -> None:
    command = compose["services"]["set-up"]["command"]
    assert "--gpu-pool ${ARENA_GPU_POOL:-${COMPOSE_PROFILES:-cpu}}" in command
    assert command.endswith("${ARENA_NOTIFY:+--notify} ${ARENA_NOTIFY:-}"), "a text: empty words vanish"
    assert "installation.yaml" in compose["services"]["set-up"]["environment"]["ARENA_INSTALLATION"]


def test_pages_and_desk_are_two_services_and_artifacts_link_to_the_pages(compose: dict[str, Any]) -> None:
    for name, variable, port in (("desk", "DESK", DESK_PORT), ("pages", "SITE", PAGES_PORT)):
        service = compose["services"][name]
        command = " ".join(service["command"])
        assert "arena serve" in command and ("--pages" in command) == (name == "pages")
        assert service["ports"] == [f"127.0.0.1:${{ARENA_{variable}_PORT:-{port}}}:{port}"]
        assert f":{port}/" in " ".join(service["healthcheck"]["test"])
        assert name == "desk" or "--site /data/state/site" in command
    assert "--site /data/state/site" in compose["services"]["set-up"]["command"], "where the weekly job writes it"
    link = compose["services"]["cpu-worker"]["environment"][SITE_URL]
    assert link == f"${{ARENA_SITE_URL:-http://127.0.0.1:${{ARENA_SITE_PORT:-{PAGES_PORT}}}}}"


def test_a_backup_holds_the_database_and_what_cannot_be_built_again(tmp_path: Path) -> None:
    store, backup, programs = tmp_path / "store", tmp_path / "backup", tmp_path / "bin"
    for name in ("editions/e.json", "llm/calls.sqlite", "papers/k/part-0.parquet"):
        (store / name).parent.mkdir(parents=True)
        (store / name).write_text(name)
    backup.mkdir()
    programs.mkdir()
    dump = programs / "pg_dump"
    dump.write_text('#!/bin/sh\nfor word; do case "$word" in --file=*) echo dumped > "${word#--file=}";; esac; done\n')
    dump.chmod(0o755)
    old = backup / "prefect-2020-01-01.dump"
    old.touch()
    os.utime(old, (0, 0))
    where = {"PATH": f"{programs}:/usr/bin:/bin", "BACKUP_TO": str(backup), "BACKUP_STORE": str(store)}
    subprocess.run(["sh", "-eu", INFRA / "backup.sh"], env=where | {"BACKUP_EVERY": "once"}, check=True)

    day = datetime.now(UTC).date().isoformat()
    assert {path.name for path in backup.iterdir()} == {f"prefect-{day}.dump", f"store-{day}.tar.gz", ".last"}
    with tarfile.open(backup / f"store-{day}.tar.gz") as archive:
        assert {name for name in archive.getnames() if "." in name} == {"editions/e.json", "llm/calls.sqlite"}
    dump.write_text("#!/bin/sh\nexit 1\n")
    failed = subprocess.run(["sh", "-eu", INFRA / "backup.sh"], env=where | {"BACKUP_EVERY": "once"}, check=False)
    assert failed.returncode != 0, "a backup that fails ends the service, and so its health"


def test_docker_reads_it() -> None:
    if not shutil.which("docker") or subprocess.run(["docker", "compose", "version"], capture_output=True).returncode:
        pytest.skip("no docker compose on this machine")
    secrets = {"PREFECT_AUTH_STRING": "a:b", "POSTGRES_PASSWORD": "c", "PATH": "/usr/local/bin:/usr/bin:/bin"}
    secrets |= dict.fromkeys(("PYTHON_IMAGE", "POSTGRES_IMAGE"), f"image@sha256:{'0' * 64}")
    secrets |= {"ARENA_BACKUP": "/srv/backup", "ARENA_SERVE_KEY": "d"}
    command = ["docker", "compose", "--file", str(INFRA / "compose.yaml"), "--profile", "gpu", "config", "--quiet"]
    assert subprocess.run(command, env=secrets, capture_output=True, text=True).stderr == ""
    refused = subprocess.run(command, env=secrets | {"POSTGRES_PASSWORD": ""}, capture_output=True, text=True)
    assert "POSTGRES_PASSWORD" in refused.stderr
