"""The served desk under many clients, beside the desk in this process: requests a second, and the slowest of twenty.

ARENA_BENCH_STORE names a store with an edition to serve; otherwise one of 1,000 invented papers is built.
"""

import asyncio
import multiprocessing
import os
import shutil
import socket
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from flows.pipeline.machine import Machine
from flows.pipeline.release_files import open_files
from flows.pipeline.walk import Pipeline
from schemas.settings import CorpusSettings, EncoderSettings, IndexSettings, Resources
from tasks.demo.release import SyntheticSettings, write_release
from tasks.service.editions import Means, ServedEditions
from tasks.store.editions import Editions
from tasks.store.store import Store
from tests.flows.conftest import direct
from tests.service.serving import serve

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1800)]

CLIENTS = 64
SEARCHES = 20
"""Of each client."""

ROUNDS = 3


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bench")
    given = os.environ.get("ARENA_BENCH_STORE")
    if given:
        shutil.copytree(given, folder / "store", symlinks=True)
        return folder / "store"
    machine = Machine(root=folder / "store", releases=folder / "releases", workers=1)
    write_release(machine.releases, SyntheticSettings(papers=1_000))
    store = Store(machine.root)
    pipeline = Pipeline(store, "bench", direct(store))
    pipeline.build_corpus(CorpusSettings(), open_files(machine, None))
    pipeline.build_indexes(IndexSettings(encoder=EncoderSettings(model="all-MiniLM-L6-v2")))
    return machine.root


@pytest.fixture(scope="module")
def url(root: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = multiprocessing.get_context("forkserver")
    ready = processes.Event()
    server = processes.Process(target=serve, args=(root, port, ready), daemon=True)
    server.start()
    assert ready.wait(120)
    yield f"http://127.0.0.1:{port}"
    server.terminate()
    server.join(60)


def summarize(what: str, seconds: list[float], wall: float) -> str:
    slow = statistics.quantiles(seconds, n=20)[-1]
    median = 1000 * statistics.median(seconds)
    return f"{what:34}{len(seconds) / wall:9,.0f} /s   median {median:7.1f} ms   p95 {1000 * slow:7.1f} ms"


async def ask(url: str, tokens: list[tuple[str, str]], engine: str) -> list[float]:
    limits = httpx.Limits(max_connections=CLIENTS)
    seconds: list[float] = []
    async with httpx.AsyncClient(base_url=url, timeout=120, limits=limits) as client:

        async def work(token: str, title: str) -> None:
            for turn in range(SEARCHES):
                began = time.perf_counter()
                body = {"query": f"{title} {turn}", "k": 20, "engine": engine}
                reply = await client.post("/v1/search", json=body, headers={"Authorization": f"Bearer {token}"})
                assert reply.status_code == 200, reply.text
                seconds.append(time.perf_counter() - began)

        await asyncio.gather(*(work(*token) for token in tokens))
    return seconds


def lease(url: str, edition: str, version: str) -> list[tuple[str, str]]:
    """Returns tokens and titles, of as many topics as there are clients; topics repeat when there are fewer."""
    system = {"name": "bench", "version": version, "kind": "desk_only"}
    with httpx.Client(base_url=url, timeout=300) as client:
        opened = client.post("/v1/runs", json={"edition": edition, "task": "discovery", "system": system}).json()
        headers = {"Authorization": f"Bearer {opened['run_token']}"}
        topics = client.post(f"/v1/runs/{opened['run']}/topics", json={"n": CLIENTS}, headers=headers).json()["topics"]
    return [(topics[n % len(topics)]["topic_token"], topics[n % len(topics)]["title"]) for n in range(CLIENTS)]


def test_many_clients_beside_the_desk_in_this_process(root: Path, url: str) -> None:
    name = Editions(Store(root)).names()[0]
    served = ServedEditions(Store(root), Means(Resources(workers=2))).find(name)
    served.prepare("discovery")
    asked = served.asked("discovery")
    lines: list[str] = []
    for engine in sorted(served.backend.engines):
        for number in range(ROUNDS):
            tokens = lease(url, name, f"{engine}{number}")
            asyncio.run(ask(url, tokens[:2], engine))  # opens the edition
            began = time.perf_counter()
            seconds = asyncio.run(ask(url, tokens, engine))
            wall = time.perf_counter() - began
            lines.append(summarize(f"{engine}, served, {CLIENTS} clients", seconds, wall))

            def search(place: int, engine: str = engine) -> list[float]:
                taken: list[float] = []
                topic = asked[place % len(asked)]
                for turn in range(SEARCHES):
                    start = time.perf_counter()
                    desk = served.desk(topic.topic)
                    hits = desk.search(f"{topic.title} {turn}", 20, engine)
                    served.cards([hit.corpus_id for hit in hits])
                    taken.append(time.perf_counter() - start)
                return taken

            began = time.perf_counter()
            with ThreadPoolExecutor(CLIENTS) as threads:
                found = [one for many in threads.map(search, range(CLIENTS)) for one in many]
            lines.append(summarize(f"{engine}, in process, {CLIENTS} threads", found, time.perf_counter() - began))
    print("\n" + "\n".join(lines))  # noqa: T201
