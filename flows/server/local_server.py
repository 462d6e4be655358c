"""The Prefect API that flows in this process use: the configured one, or a temporary local server."""

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

START_WITHIN, STOP_WITHIN = 120.0, 15.0
"""Seconds."""


@contextmanager
def prefect_api(folder: Path, port: int = 0) -> Generator[str]:
    """Makes sure that there is a Prefect API; to be entered before `prefect` is imported.

    The server of PREFECT_API_URL is used when that is set. Otherwise one is started on loopback, and ended again.

    Args:
        folder: Where a server of our own keeps its database and its log (`server.log`).
        port: Of a server of our own; 0: any that is free.

    Yields:
        The API's address.

    Raises:
        ArenaError: The configured server does not answer, or our own ended or did not answer in time.
    """
    if configured := os.environ.get("PREFECT_API_URL"):
        if not _answers(configured):
            raise ArenaError(
                f"nothing answers at PREFECT_API_URL={configured}; start that server, or unset the variable"
            )
        try:
            yield configured
        finally:
            end_prefect_threads()
        return
    folder.mkdir(parents=True, exist_ok=True)
    os.environ |= {"PREFECT_HOME": str(folder.absolute()), "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    port = port or _free_port()
    url, log = f"http://127.0.0.1:{port}/api", folder / "server.log"
    server = _start(port, log)
    try:
        _wait_until_healthy(server, url, log)
        os.environ["PREFECT_API_URL"] = url
        yield url
    finally:
        end_prefect_threads()
        os.environ.pop("PREFECT_API_URL", None)
        stop(server)


def end_prefect_threads() -> None:
    """Ends Prefect's background threads, after they have sent their last events.

    They keep the context of the last flow run, and so everything that it imported, alive until after the interpreter
    has ended; DuckDB then fills the terminal with complaints about objects that are never released.
    """
    from prefect._internal.concurrency.threads import get_global_loop, get_run_sync_loop

    for loop in (get_run_sync_loop(), get_global_loop()):
        loop.shutdown()
        loop.thread.join(STOP_WITHIN)


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
    """Asks the kernel to end this process when its parent ends, so that not even kill -9 leaves a server behind."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)


def _wait_until_healthy(server: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    deadline = time.monotonic() + START_WITHIN
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise ArenaError(f"the Prefect server ended with {server.returncode} while starting; see {log}")
        if _answers(url):
            return
        time.sleep(0.2)
    raise ArenaError(f"the Prefect server did not answer within {START_WITHIN:.0f} s; see {log}")


def _answers(url: str) -> bool:
    """Whether something speaks HTTP at an API's address, be it to say that we are not known there."""
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5):  # noqa: S310 - the user's own address
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


def stop(server: "subprocess.Popen[bytes]") -> None:
    """Ends a process that leads its own group, and all of that group: politely, then not."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        if server.poll() is not None:
            return
        os.killpg(server.pid, how)
        try:
            server.wait(STOP_WITHIN)
        except subprocess.TimeoutExpired:
            continue
