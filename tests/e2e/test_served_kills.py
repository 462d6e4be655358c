"""The served desk is killed again and again under load: leases and the record go on, and no answered call is lost."""

import json
import multiprocessing
import os
import random
import shutil
import signal
import socket
import threading
import time
from pathlib import Path

import httpx
import pytest

from tasks.service.record import export_calls, open_record, record_problems
from tasks.store.store import Store
from tests.service.conftest import EDITION, publish_edition
from tests.service.serving import serve

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

KILLS = 20
CLIENTS = 8


class Server:
    """A server in a process of its own, on one port, started again after each kill."""

    def __init__(self, root: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._root = root
        self._processes = multiprocessing.get_context("forkserver")
        self._processes.set_forkserver_preload(["tests.service.serving"])  # so that a start takes no imports
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        ready = self._processes.Event()
        self.process = self._processes.Process(target=serve, args=(self._root, self.port, ready), daemon=True)
        self.process.start()
        assert ready.wait(120)

    def end(self, how: signal.Signals) -> int | None:
        assert self.process.pid is not None
        os.kill(self.process.pid, how)
        self.process.join(60)
        return self.process.exitcode


def test_no_answered_call_is_lost(tmp_path: Path) -> None:
    root = tmp_path / "store"
    publish_edition(Store(root))
    server, answered, stop = Server(root), set[str](), threading.Event()
    runs = [open_run(server.url, version) for version in range(CLIENTS)]
    tokens = [lease(server.url, *run) for run in runs]

    def work(number: int) -> None:
        turn = 0
        with httpx.Client(
            base_url=server.url, headers={"Authorization": f"Bearer {tokens[number]}"}, timeout=5
        ) as client:
            while not stop.is_set():
                query = f"birds {number} {turn}"
                turn += 1
                try:
                    reply = client.post("/v1/search", json={"query": query, "k": 3})
                except httpx.HTTPError:  # killed before it answered
                    time.sleep(0.05)
                    continue
                assert reply.status_code == 200, reply.text
                answered.add(query)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    pause = random.Random(5)
    try:
        for _ in range(KILLS):
            await_more(answered, pause.randint(CLIENTS, 8 * CLIENTS))
            assert server.end(signal.SIGKILL) == -signal.SIGKILL
            assert record_problems(root, EDITION) == []
            server.start()
    finally:
        stop.set()
        for thread in threads:
            thread.join(30)
    finished = [finish(server.url, *run, token) for run, token in zip(runs, tokens, strict=True)]
    assert server.end(signal.SIGTERM) in (0, -signal.SIGTERM)
    rows = [json.loads(line) for name, _ in runs for line in export_calls(open_record(root), EDITION, name)]
    recorded = [row["arguments"]["query"] for row in rows if row["call"] == "search"]
    assert answered <= set(recorded)
    assert len(set(recorded) - answered) <= KILLS * CLIENTS  # written, and killed before the answer left
    assert finished == [{"scored": 1, "empty": 2}] * CLIENTS
    assert record_problems(root, EDITION) == []
    shutil.rmtree(root)


def await_more(answered: set[str], number: int) -> None:
    """Waits until so many more calls were answered, so that every kill comes in the middle of work."""
    wanted, deadline = len(answered) + number, time.monotonic() + 60
    while len(answered) < wanted:
        assert time.monotonic() < deadline, "the server answers no more"
        time.sleep(0.01)


def open_run(url: str, version: int) -> tuple[str, str]:
    system = {"name": "killed", "version": str(version), "kind": "desk_only"}
    opened = httpx.post(f"{url}/v1/runs", json={"edition": EDITION, "task": "discovery", "system": system}, timeout=60)
    return opened.json()["run"], opened.json()["run_token"]


def lease(url: str, run: str, token: str) -> str:
    reply = httpx.post(f"{url}/v1/runs/{run}/topics", headers={"Authorization": f"Bearer {token}"}, timeout=60)
    return reply.json()["topics"][0]["topic_token"]


def finish(url: str, run: str, run_token: str, token: str) -> dict[str, int]:
    with httpx.Client(base_url=url, timeout=60) as client:
        own, whole = ({"Authorization": f"Bearer {found}"} for found in (token, run_token))
        assert client.post("/v1/submit", json={"ranking": [100]}, headers=own).status_code == 200
        return client.post(f"/v1/runs/{run}/finish", headers=whole).json()["outcomes"]
