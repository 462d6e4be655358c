"""Finds the Prefect API that flows of this process use: the configured one, or a temporary local server."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from schemas.errors import ArenaError

STARTUP_TIMEOUT, SHUTDOWN_TIMEOUT = 120.0, 15.0
"""Seconds."""


@contextmanager
def prefect_api(folder: Path, port: int = 0) -> Generator[str]:
    """Makes sure that a Prefect API is there. Enter it before `prefect` is imported.

    It uses the server that PREFECT_API_URL names. When the variable is not set, it starts a server on loopback and
    stops it at the end.

    Args:
        folder: Where a server of our own keeps its database and its log (`server.log`).
        port: The port of a server of our own; 0: any free one.

    Yields:
        The API's address.

    Raises:
        ArenaError: The configured server does not answer, or our own stopped or did not answer in time.
    """
    if configured := os.environ.get("PREFECT_API_URL"):
        if not _answers(configured):
            raise ArenaError(
                f"nothing answers at PREFECT_API_URL={configured}; start that server, or unset the variable"
            )
        with send_events_and_logs():
            yield configured
        return
    folder.mkdir(parents=True, exist_ok=True)
    os.environ |= {"PREFECT_HOME": str(folder.absolute()), "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    port = port or _free_port()
    url, log = f"http://127.0.0.1:{port}/api", folder / "server.log"
    server = _start(port, log)
    try:
        _wait_until_healthy(server, url, log)
        os.environ["PREFECT_API_URL"] = url
        with send_events_and_logs():
            yield url
    finally:
        os.environ.pop("PREFECT_API_URL", None)
        stop(server)


@contextmanager
def send_events_and_logs() -> Generator[None]:
    """Starts Prefect's senders of events and logs, and waits at the end until they have sent everything.

    Prefect keeps the context in which a sender starts until the interpreter has ended. Started by the first flow run, a
    sender would keep that run and every module it imported, and DuckDB would report leaked objects on the terminal.
    """
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    senders = (APILogWorker, EventsWorker)
    for sender in senders:
        sender.instance()
    try:
        yield
    finally:
        for sender in senders:
            sender.drain_all(timeout=SHUTDOWN_TIMEOUT)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _start(port: int, log: Path) -> "subprocess.Popen[bytes]":
    with log.open("w") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)],
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=end_with_parent,
        )


def end_with_parent() -> None:
    """Asks the kernel to end this process when its parent ends, so that even kill -9 leaves no server behind."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)


def _wait_until_healthy(server: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    deadline = time.monotonic() + STARTUP_TIMEOUT
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise ArenaError(f"the Prefect server ended with exit code {server.returncode} while it started; see {log}")
        if _answers(url):
            return
        time.sleep(0.2)
    raise ArenaError(f"the Prefect server did not answer within {STARTUP_TIMEOUT:.0f} s; see {log}")


def _answers(url: str) -> bool:
    """Returns whether something speaks HTTP at an API's address, even if it refuses us."""
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5):  # noqa: S310 - the user's own address
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


def stop(server: "subprocess.Popen[bytes]") -> None:
    """Ends a process and its group: SIGTERM first, SIGKILL when that does not help. It must lead the group."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        if server.poll() is not None:
            return
        os.killpg(server.pid, how)
        try:
            server.wait(SHUTDOWN_TIMEOUT)
        except subprocess.TimeoutExpired:
            continue
