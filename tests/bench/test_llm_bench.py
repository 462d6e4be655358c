"""What the door adds to a call, beside bare aiohttp in the same run; and how fast stored calls are read."""

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from pathlib import Path

import aiohttp
import orjson
import pytest
from pydantic import SecretStr

from schemas.llm import Message, Parameters, Price, Request
from schemas.llm_settings import BudgetSettings, Cap, LlmSettings
from tasks.llm.door import Door
from tests.conftest import REPOSITORY

CONCURRENCY = 64
CALLS = 1500
TEXT = "Is this paper a survey of a field? " + "An abstract has about two hundred words. " * 30

JSON = {"Content-Type": "application/json"}

pytestmark = pytest.mark.bench

_numbers = count()


@pytest.fixture
def endpoint(request: pytest.FixtureRequest) -> Iterator[str]:
    """The scripted server in a process of its own, answering after a delay."""
    program = REPOSITORY / "tests" / "llm" / "scripted_server.py"
    with subprocess.Popen(
        [sys.executable, program, str(request.param)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        yield process.stdout.readline().strip()
        process.terminate()


def settings(url: str, cache: Path, concurrency: int = CONCURRENCY) -> LlmSettings:
    return LlmSettings(
        base_url=url,
        model="m",
        cache=cache,
        concurrency=concurrency,
        prices={"m": Price(input=1, output=1)},
        budget=BudgetSettings(run="bench", cap=Cap(usd=1000), stages={"bench": Cap(tokens=10**9)}),
    )


def request() -> Request:
    """A question that was not asked before."""
    text = f"{next(_numbers)} {TEXT}"
    return Request(messages=(Message(role="user", content=text),), stage="bench", parameters=Parameters(max_tokens=64))


Ask = Callable[[], Awaitable[object]]


async def medians_ms(*ways: Ask) -> list[float]:
    """Median time of a call in each way, in milliseconds: callers take turns, so that all meet the same load."""
    times: list[list[float]] = [[] for _ in ways]
    left = iter(range(CALLS * len(ways)))

    async def work() -> None:
        for number in left:
            begun = time.perf_counter()
            await ways[number % len(ways)]()
            times[number % len(ways)].append(time.perf_counter() - begun)

    await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
    return [statistics.median(of_way) * 1000 for of_way in times]


async def cpu_ms(way: Ask) -> float:
    """Processor time of a call, in milliseconds, when all calls go one way."""
    begun = time.process_time()
    await medians_ms(way)
    return (time.process_time() - begun) * 1000 / CALLS


async def compare(url: str, cache: Path) -> tuple[list[float], list[float]]:
    """Median times of bare calls and of calls through the door, and their processor times."""

    async def bare() -> None:
        body = orjson.dumps({"model": "m", "messages": [{"role": "user", "content": f"{next(_numbers)} {TEXT}"}]})
        async with session.post(f"{url}/chat/completions", data=body, headers=JSON) as reply:
            assert orjson.loads(await reply.read())["choices"]

    async def through_the_door() -> None:
        assert (await door.ask(request())).outcome == "ok"

    connector = aiohttp.TCPConnector(limit=0)
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        Door(settings(url, cache), SecretStr("none")) as door,
    ):
        await medians_ms(bare, through_the_door)
        medians = await medians_ms(bare, through_the_door)
        cpu = [await cpu_ms(bare), await cpu_ms(through_the_door)]
    return medians, cpu


@pytest.mark.parametrize("endpoint", [0.2], indirect=True)
def test_the_door_adds_less_than_3_ms_to_a_call(endpoint: str, tmp_path: Path) -> None:
    (bare, door), (bare_cpu, door_cpu) = asyncio.run(compare(endpoint, tmp_path / "calls.db"))
    print(f"\nmedian: bare {bare:.1f} ms, door {door:.1f} ms, added {door - bare:+.2f} ms;", end=" ")  # noqa: T201
    print(f"processor: bare {bare_cpu:.2f} ms, door {door_cpu:.2f} ms", end="")  # noqa: T201
    assert door - bare < 3


async def read_back(url: str, cache: Path, count: int) -> float:
    async with Door(settings(url, cache), SecretStr("none")) as door:
        requests = [request() for _ in range(count)]
        await door.ask_all(requests)
    async with Door(settings(url, cache)) as door:
        begun = time.perf_counter()
        replies = await door.ask_all(requests)
        took = time.perf_counter() - begun
    assert {reply.source for reply in replies} == {"cache"}
    return took


@pytest.mark.parametrize("endpoint", [0.0], indirect=True)
def test_10_000_stored_calls_are_read_in_5_s(endpoint: str, tmp_path: Path) -> None:
    took = asyncio.run(read_back(endpoint, tmp_path / "calls.db", 10_000))
    print(f"\n10,000 stored calls in {took:.2f} s", end="")  # noqa: T201
    assert took < 5


MANY, IN_FLIGHT = 10_000, 512


async def bare_aiohttp(url: str) -> float:
    """Seconds of many calls with nothing but aiohttp: the same bodies, each reply read and parsed."""
    slots = asyncio.Semaphore(IN_FLIGHT)
    bodies = [
        orjson.dumps({"model": "m", "messages": [{"role": "user", "content": f"{next(_numbers)} {TEXT}"}]})
        for _ in range(MANY)
    ]
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def one(body: bytes) -> None:
            async with slots, session.post(f"{url}/chat/completions", data=body, headers=JSON) as reply:
                assert orjson.loads(await reply.read())["choices"]

        begun = time.perf_counter()
        await asyncio.gather(*map(one, bodies))
        return time.perf_counter() - begun


async def many_through_the_door(url: str, cache: Path) -> float:
    async with Door(settings(url, cache, IN_FLIGHT), SecretStr("none")) as door:
        requests = [request() for _ in range(MANY)]
        begun = time.perf_counter()
        replies = await door.ask_all(requests)
        took = time.perf_counter() - begun
    assert {reply.outcome for reply in replies} == {"ok"}
    return took


@pytest.mark.parametrize("endpoint", [0.2], indirect=True)
def test_10_000_calls_at_512_in_flight_are_nearly_as_fast_as_aiohttp_alone(endpoint: str, tmp_path: Path) -> None:
    bare, door = [], []
    for turn in range(2):
        bare.append(asyncio.run(bare_aiohttp(endpoint)))
        door.append(asyncio.run(many_through_the_door(endpoint, tmp_path / f"{turn}.db")))
    share = min(bare) / min(door)
    print(f"\nbare {MANY / min(bare):.0f}/s, door {MANY / min(door):.0f}/s: {share:.2f}", end="")  # noqa: T201
    assert share >= 0.8
