"""Limits of an endpoint: one cool-down for all calls, no herd, and what the headers say."""

import asyncio
import selectors
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from schemas.llm_settings import RetrySettings
from tasks.llm.door import Door
from tasks.llm.gate import Gate, Quota, read_quotas
from tests.llm.conftest import SECRET, SHORT, question
from tests.llm.scripted_server import Answer, ScriptedServer, Seen, completion, error

ResultT = TypeVar("ResultT")


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop whose time jumps to the next timer: hours pass in milliseconds."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(_Jumping(self))

    def time(self) -> float:
        return self.now


class _Jumping(selectors.DefaultSelector):
    def __init__(self, loop: JumpingLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        if timeout:
            self._loop.now += timeout
        return super().select(0)


def in_jumping_time(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(work)


class MinuteWindow:
    """A limiter that admits so many calls in each minute of the clock, and says nothing about it."""

    def __init__(self, limit: int) -> None:
        self.limit, self.calls, self.admitted = limit, 0, dict[int, int]()

    async def call(self) -> bool:
        minute = int(asyncio.get_running_loop().time() // 60)
        self.calls += 1
        admitted = self.admitted.get(minute, 0) < self.limit
        if admitted:
            self.admitted[minute] = self.admitted.get(minute, 0) + 1
        await asyncio.sleep(0.2)
        return admitted


@pytest.mark.parametrize("in_flight", [32, 512])
@pytest.mark.parametrize("limit", [100, 300, 500, 760])
def test_a_minute_window_without_headers_costs_few_calls(limit: int, in_flight: int) -> None:
    """1,000 calls, none given up, at most 1.3 times the calls needed."""

    async def work() -> tuple[int, float]:
        window, gate = MinuteWindow(limit), Gate(RetrySettings())
        slots = asyncio.Semaphore(in_flight)

        async def one() -> None:
            while True:
                async with slots:
                    ticket = await gate.admit(1)
                    admitted = await window.call()
                    gate.admitted(ticket) if admitted else gate.turned_away(ticket, None)
                    gate.leave(ticket)
                if admitted:
                    return

        await asyncio.gather(*(one() for _ in range(1000)))
        return window.calls, asyncio.get_running_loop().time()

    calls, took = in_jumping_time(work())
    assert calls <= 1300
    assert took < 60 * (1000 / limit + 3)


def test_the_careful_beginning_costs_less_than_a_quarter_of_the_time() -> None:
    """10,000 calls of 0.2 s at 512 in flight, to an endpoint without limits."""

    async def work() -> float:
        gate, slots = Gate(RetrySettings()), asyncio.Semaphore(512)

        async def one() -> None:
            async with slots:
                ticket = await gate.admit(1)
                await asyncio.sleep(0.2)
                gate.admitted(ticket)
                gate.leave(ticket)

        await asyncio.gather(*(one() for _ in range(10_000)))
        return asyncio.get_running_loop().time()

    assert in_jumping_time(work()) < 1.25 * 10_000 * 0.2 / 512


def test_after_a_limit_the_pace_rises_again() -> None:
    """A second of overload does not slow a run down for good."""

    async def work() -> float:
        gate, loop = Gate(RetrySettings()), asyncio.get_running_loop()
        slots = asyncio.Semaphore(64)

        async def one(number: int) -> None:
            while True:
                async with slots:
                    ticket = await gate.admit(1)
                    await asyncio.sleep(0.2)
                    overloaded = 1 < loop.time() < 2
                    gate.turned_away(ticket, None) if overloaded else gate.admitted(ticket)
                    gate.leave(ticket)
                if not overloaded:
                    return

        await asyncio.gather(*(one(number) for number in range(20_000)))
        return loop.time()

    assert in_jumping_time(work()) < 2 * 20_000 * 0.2 / 64


def test_a_thousand_calls_pass_a_window_of_a_real_server(server: ScriptedServer, settings: Any) -> None:
    begun, used = time.monotonic(), dict[int, int]()

    def window(seen: Seen, number: int) -> Answer:
        now = int((time.monotonic() - begun) / 0.5)
        used[now] = used.get(now, 0) + 1
        return completion("fine") if used[now] <= 150 else error(429, "slow down")

    server.play(window)

    async def many() -> list[str]:
        async with Door(settings(concurrency=64, retry={"tries": 2, "base_s": 0.02, "cap_s": 0.2}), SECRET) as door:
            replies = await door.ask_all(question(f"{number}", parameters=SHORT) for number in range(400))
            return [reply.outcome for reply in replies]

    assert asyncio.run(many()) == ["ok"] * 400
    assert len(server.seen) <= 1.3 * 400


def test_what_is_left_is_not_overrun(server: ScriptedServer, settings: Any) -> None:
    """The endpoint says after each reply how many calls are left; nobody is turned away."""
    state = {"left": 40, "reset": time.monotonic() + 0.4}

    def counted(seen: Seen, number: int) -> Answer:
        if time.monotonic() >= state["reset"]:
            state.update(left=40, reset=time.monotonic() + 0.4)
        if state["left"] <= 0:
            return error(429, "too many")
        state["left"] -= 1
        wait = f"{max(1, int((state['reset'] - time.monotonic()) * 1000) + 5)}ms"
        told = completion("fine")
        limits = {"x-ratelimit-remaining-requests": str(int(state["left"])), "x-ratelimit-reset-requests": wait}
        return Answer(told.body, 200, told.headers | limits)

    server.play(counted)

    async def many() -> set[str]:
        async with Door(settings(concurrency=16), SECRET) as door:
            replies = await door.ask_all(question(f"{number}", parameters=SHORT) for number in range(100))
            return {reply.outcome for reply in replies}

    assert asyncio.run(many()) == {"ok"}
    assert len(server.seen) == 100


@pytest.mark.parametrize(
    ("text", "seconds"), [("1s", 1), ("6m0s", 360), ("20ms", 0.02), ("1m30.5s", 90.5), ("7", 7), ("1h", 3600)]
)
def test_resets_are_read_in_every_form(text: str, seconds: float) -> None:
    headers = {"x-ratelimit-remaining-tokens": "12", "x-ratelimit-reset-tokens": text}
    assert read_quotas(headers) == (None, Quota(12, pytest.approx(seconds)))


def test_illegible_limits_are_no_limits() -> None:
    assert read_quotas({"x-ratelimit-remaining-requests": "many", "x-ratelimit-reset-requests": "1s"}) == (None, None)
    assert read_quotas({"x-ratelimit-remaining-requests": "1", "x-ratelimit-reset-requests": "soon"}) == (None, None)
    found = read_quotas(
        {
            "anthropic-ratelimit-requests-remaining": "0",
            "anthropic-ratelimit-requests-reset": "2020-01-01T00:00:00Z",
        }
    )
    assert found.requests == (0, 0.0)
