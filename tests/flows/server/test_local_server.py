"""The local server answers while it is needed, and stops with the process that started it, however that ends."""

import os
import signal
import socket
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import psutil
import pytest

from flows.server import local_server
from flows.server.environment import replaced_variables
from flows.server.local_server import AUTH_FILE, prefect_api
from schemas.errors import ArenaError, UsageError

PROGRAM = """
import signal, sys, time
from pathlib import Path
from flows.server.local_server import prefect_api
signal.signal(signal.SIGTERM, signal.default_int_handler)  # as commands do
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
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"{url}/admin/settings", timeout=5)
        servers = psutil.Process(process.pid).children(recursive=True)
        assert servers
        process.send_signal(ending)
        assert wait_until_gone(servers)
    process.wait(60)

    deadline = time.monotonic() + 30
    assert not (tmp_path / AUTH_FILE).exists() or ending == signal.SIGKILL
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


class Other(BaseHTTPRequestHandler):
    """A server of someone else, which says that it is healthy."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *_: object) -> None:
        pass


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
def test_a_port_where_someone_else_answers_is_refused_before_anything_is_written(address, tmp_path, monkeypatch):
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    with HTTPServer((address, 0), Other) as other:
        Thread(target=other.serve_forever).start()
        try:
            with (
                pytest.raises(UsageError, match=rf"port {other.server_port} .* in use.*--port 0"),
                prefect_api(tmp_path / "p", other.server_port),
            ):
                pytest.fail("that is not our server")
        finally:
            other.shutdown()
    assert not (tmp_path / "p").exists()


def test_a_server_that_took_the_port_meanwhile_is_not_taken_for_ours():
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            assert local_server._listens(os.getpid(), port)
            assert not local_server._listens(sleeper.pid, port)
    finally:
        sleeper.kill()
        sleeper.wait()


def test_folder_and_files_of_the_server_are_the_users_alone_also_older_ones(tmp_path):
    folder = tmp_path / "p"
    folder.mkdir(mode=0o755)
    for name in ("prefect.db", "prefect.db-wal", AUTH_FILE):
        (folder / name).touch(mode=0o644)

    local_server._make_private(folder)
    local_server._write_private(folder / AUTH_FILE, "arena:secret")

    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_settings_of_other_servers_are_set_aside_and_come_back(monkeypatch):
    theirs = {"PREFECT_API_KEY": "cloud", "PREFECT_SERVER_DATABASE_CONNECTION_URL": "postgresql://theirs"}
    for name, value in (theirs | {"PREFECT_LOGGING_LEVEL": "DEBUG"}).items():
        monkeypatch.setenv(name, value)
    with replaced_variables({"PREFECT_API_AUTH_STRING": "arena:ours"}, local_server._sets_prefect):
        assert os.environ["PREFECT_API_AUTH_STRING"] == "arena:ours"
        assert os.environ["PREFECT_LOGGING_LEVEL"] == "DEBUG"
        assert not theirs.keys() & os.environ.keys()
    assert theirs.items() <= os.environ.items()
    assert "PREFECT_API_AUTH_STRING" not in os.environ
