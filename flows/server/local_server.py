"""Finds the Prefect API that flows of this process use: the configured one, or a temporary local server."""

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from flows.server.environment import replaced_variables, server_environment
from schemas.errors import ArenaError, UsageError
from tasks.store.parent import end_with_parent

STARTUP_TIMEOUT, SHUTDOWN_TIMEOUT = 120.0, 15.0
"""Seconds."""

AUTH_FILE = "auth-string"
"""File beside the database of a server of our own: what every request must carry, and what its page asks for."""

HOST = "127.0.0.1"


@contextmanager
def prefect_api(folder: Path, port: int = 0) -> Generator[str]:
    """Makes sure that a Prefect API is there. Enter it before `prefect` is imported.

    It uses the server that PREFECT_API_URL names. When the variable is not set, it starts a server on loopback and
    stops it at the end. That server refuses requests that do not carry a random string, new at each start, and pages
    of other origins: without the string, any user of the machine could run commands through it.

    Args:
        folder: Where a server of our own keeps its database, its log (`server.log`) and, while it runs, its auth
            string (`auth-string`). Only the user may read it.
        port: The port of a server of our own; 0: any free one.

    Yields:
        The API's address.

    Raises:
        UsageError: The port is taken.
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
    port = free_port(port)
    url, auth = f"http://{HOST}:{port}/api", f"arena:{secrets.token_urlsafe(24)}"
    _make_private(folder)
    _write_private(folder / AUTH_FILE, auth)
    home = {"PREFECT_HOME": str(folder.absolute()), "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    server = _start(port, folder / "server.log", home | {"PREFECT_API_AUTH_STRING": auth})
    try:
        _wait_until_healthy(server, port, folder / "server.log")
        with (
            replaced_variables(home | {"PREFECT_API_URL": url, "PREFECT_API_AUTH_STRING": auth}, _sets_prefect),
            send_events_and_logs(),
        ):
            yield url
    finally:
        stop(server)
        (folder / AUTH_FILE).unlink(missing_ok=True)


def _sets_prefect(name: str) -> bool:
    """Returns whether a variable is a setting of Prefect that may name another server; those of its log do not."""
    return name.startswith("PREFECT_") and not name.startswith("PREFECT_LOGGING_")


def _make_private(folder: Path) -> None:
    """Creates a folder, and leaves it and the databases in it to the user alone."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    for database in folder.glob("prefect.db*"):
        database.chmod(0o600)


def _write_private(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:  # noqa: PTH123 - a descriptor
        file.write(text)


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


def free_port(port: int) -> int:
    """Returns the port, or any free one for 0.

    Raises:
        UsageError: Something listens there. Whatever it is would get our deployments, and our workers its runs.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that ended do not hold a port
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise UsageError(
                f"port {port} of {HOST} cannot be used ({error.strerror}); stop what listens there, or choose another "
                "port: --port 0 takes any free one"
            ) from error
        return probe.getsockname()[1]


def _start(port: int, log: Path, settings: dict[str, str]) -> "subprocess.Popen[bytes]":
    """Starts a server whose pages and API refuse strangers: other users, and pages of other origins."""
    settings |= {
        "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
        "PREFECT_UI_URL": f"http://{HOST}:{port}",  # links in notifications
        "PREFECT_SERVER_API_AUTH_STRING": settings["PREFECT_API_AUTH_STRING"],
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": f"http://{HOST}:{port}",
        "PREFECT_SERVER_UI_API_URL": "/api",  # the page talks to the server that served it, whatever its port
    }
    _write_private(log, "")
    with log.open("a") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "prefect", "server", "start", "--host", HOST, "--port", str(port)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=server_environment(os.environ, **settings),
            start_new_session=True,
            umask=0o077,  # its database holds parameters and logs of runs
            preexec_fn=end_with_parent,
        )


def _wait_until_healthy(server: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    """Waits until our server answers, and not another program that took the port while ours started."""
    deadline = time.monotonic() + STARTUP_TIMEOUT
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise ArenaError(f"the Prefect server ended with exit code {server.returncode} while it started; see {log}")
        if _listens(server.pid, port) and _answers(f"http://{HOST}:{port}/api"):
            return
        time.sleep(0.2)
    raise ArenaError(f"the Prefect server did not answer within {STARTUP_TIMEOUT:.0f} s; see {log}")


def _listens(process: int, port: int) -> bool:
    """Returns whether the socket that listens on a port of loopback belongs to a process, as the kernel says."""
    address, listening = f"0100007F:{port:04X}", "0A"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    sockets = {f"socket:[{row[9]}]" for row in rows if (row[1], row[3]) == (address, listening)}
    for descriptor in Path(f"/proc/{process}/fd").glob("*"):
        with suppress(OSError):  # it was closed meanwhile
            if str(descriptor.readlink()) in sockets:
                return True
    return False


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
