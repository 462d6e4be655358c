"""What the door adds to a call, beside the bare client in the same run; and how fast stored calls are read."""

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from pathlib import Path

import openai
import pytest
from pydantic import SecretStr

from schemas.llm import BudgetSettings, Cap, LlmSettings, Message, Parameters, Price, Request
from tasks.llm.door import Door
from tests.conftest import REPOSITORY

CONCURRENCY = 64
CALLS = 320
ROUNDS = 5
TEXT = "Is this paper a survey of a field? " + "An abstract has about two hundred words. " * 30

pytestmark = pytest.mark.bench

_numbers = count()


@pytest.fixture(params=[0.0, 0.2], ids=["at once", "after 200 ms"])
def endpoint(request: pytest.FixtureRequest) -> Iterator[str]:
    """The scripted server in a process of its own, answering after a delay."""
    program = REPOSITORY / "tests" / "llm" / "scripted_server.py"
    with subprocess.Popen(
        [sys.executable, program, str(request.param)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        yield process.stdout.readline().strip()
        process.terminate()


def settings(url: str, cache: Path) -> LlmSettings:
    return LlmSettings(
        base_url=url,
        model="m",
        cache=cache,
        concurrency=CONCURRENCY,
        prices={"m": Price(input=1, output=1)},
        budget=BudgetSettings(run="bench", cap=Cap(usd=1000), stages={"bench": Cap(tokens=10**9)}),
    )


def request() -> Request:
    """A question that was not asked before."""
    text = f"{next(_numbers)} {TEXT}"
    return Request(messages=(Message(role="user", content=text),), stage="bench", parameters=Parameters(max_tokens=64))


async def median_ms(call: Callable[[], Awaitable[object]]) -> float:
    """Median time of a call with all others under way, in milliseconds."""
    times: list[float] = []
    left = iter(range(CALLS))

    async def work() -> None:
        for _ in left:
            begun = time.perf_counter()
            await call()
            times.append(time.perf_counter() - begun)

    await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
    return statistics.median(times) * 1000


async def compare(url: str, cache: Path) -> list[tuple[float, float]]:
    client = openai.AsyncOpenAI(api_key="none", base_url=url, max_retries=0)

    async def bare() -> None:
        text = f"{next(_numbers)} {TEXT}"
        await client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": text}], temperature=0, seed=42, max_tokens=64
        )

    async with Door(settings(url, cache), SecretStr("none")) as door:

        async def through_the_door() -> None:
            assert (await door.ask(request())).outcome == "ok"

        await median_ms(bare)
        await median_ms(through_the_door)
        rounds = [(await median_ms(bare), await median_ms(through_the_door)) for _ in range(ROUNDS)]
    await client.close()
    return rounds


def test_the_door_adds_less_than_3_ms_to_a_call(endpoint: str, tmp_path: Path) -> None:
    """By the quietest round of each: what else the machine does falls on both, but not evenly."""
    rounds = asyncio.run(compare(endpoint, tmp_path / "calls.db"))
    for bare, door in rounds:
        print(f"\nbare {bare:.1f} ms, door {door:.1f} ms, added {door - bare:+.2f} ms", end="")  # noqa: T201
    bare, door = (min(times) for times in zip(*rounds, strict=True))
    print(f"\nquietest: bare {bare:.1f} ms, door {door:.1f} ms, added {door - bare:+.2f} ms", end="")  # noqa: T201
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
