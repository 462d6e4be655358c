"""The local server answers while it is needed, and stops with the process that started it, however that ends."""

import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import psutil
import pytest

from flows.server.local_server import prefect_api
from schemas.errors import ArenaError

PROGRAM = """
import sys, time
from pathlib import Path
from flows.server.local_server import prefect_api
with prefect_api(Path(sys.argv[1])) as url:
    print(url, flush=True)
    time.sleep(float(sys.argv[2]))
"""


def start(folder: Path, seconds: float) -> tuple["subprocess.Popen[str]", str]:
    """Starts a process that keeps a server for some seconds; returns the process and the server's address."""
    environment = {name: value for name, value in os.environ.items() if name != "PREFECT_API_URL"}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder), str(seconds)], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def wait_until_gone(servers: list[psutil.Process]) -> bool:
    return not psutil.wait_procs(servers, timeout=30)[1]


@pytest.mark.e2e
@pytest.mark.parametrize("ending", [None, signal.SIGTERM, signal.SIGKILL])
def test_the_server_ends_with_the_process_that_needed_it(tmp_path, ending):
    process, url = start(tmp_path, 0 if ending is None else 600)
    if ending is not None:
        with urllib.request.urlopen(f"{url}/health", timeout=5) as answer:
            assert answer.status == 200
        servers = psutil.Process(process.pid).children(recursive=True)
        assert servers
        process.send_signal(ending)
        assert wait_until_gone(servers)
    process.wait(60)

    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(f"{url}/health", timeout=2)
        except OSError:
            return
    pytest.fail(f"{url} still answers")


def test_a_configured_server_must_answer(tmp_path, monkeypatch):
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:1/api")

    with (
        pytest.raises(ArenaError, match="start that server, or unset"),
        prefect_api(tmp_path / "p"),
    ):
        pytest.fail("there is no server")

    assert not (tmp_path / "p").exists()
