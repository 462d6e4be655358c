"""`arena ui`: one command starts everything and prints the address; Ctrl-C ends everything."""

import re
import signal
import subprocess
import sys

import httpx
import psutil
import pytest

from flows.server.deployments import CATALOGUE
from tests.e2e.conftest import Site, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]


def test_one_command_serves_and_ctrl_c_ends_all_of_it(tmp_path, out):
    environment = {
        name: value for name, value in Site(tmp_path, out).environment.items() if not name.startswith("PREFECT")
    }
    command = [sys.executable, "-c", "from flows.cli import main; main()", "ui", "--port", "0", "--papers", "200"]
    process = subprocess.Popen(command, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = re.fullmatch(r"Prefect: (http://127\.0\.0\.1:\d+) \(Ctrl-C ends it\)\n", process.stdout.readline())
        assert found
        with httpx.Client(base_url=f"{found[1]}/api", timeout=30) as api:
            deployed = api.post("/deployments/filter", json={}).json()
            assert {entry["name"] for entry in deployed} == {job.name for job in CATALOGUE}
            for pool in ("cpu", "gpu"):
                workers = f"/work_pools/{pool}/workers/filter"
                wait_for(f"a worker serves {pool}", lambda path=workers: api.post(path, json={}).json(), 90)
        family = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        assert process.wait(90) == 0
        assert not psutil.wait_procs(family, timeout=30)[1]
    finally:
        process.kill()
