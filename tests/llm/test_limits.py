"""Caps, rate limits, concurrency: what keeps a run within what it may use."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.llm import Price, Tokens, Usage
from schemas.llm_settings import BudgetSettings, Cap, RateSettings
from tasks.llm.budget import Budget
from tasks.llm.database import Database
from tasks.llm.door import Door
from tasks.llm.key import request_key
from tasks.llm.limiter import Limiter
from tests.llm.conftest import SECRET, SHORT, capped, question, scored
from tests.llm.scripted_server import Answer, completion, error

SLOW = Answer(completion("fine").body, 200, {"content-type": "application/json"}, delay_s=0.01)


def ask_all(settings, requests):
    async def many():
        async with Door(settings, SECRET) as door:
            replies = await door.ask_all(requests)
            return replies, door.budget.spent()

    return asyncio.run(many())


def numbered(count, **more):
    return [question(f"{i:03}", parameters=SHORT, **more) for i in range(count)]


@pytest.mark.parametrize("unit", ["usd", "tokens"])
def test_64_parallel_calls_stop_within_the_cap(server, settings, unit):
    """Each call uses 110 tokens, at a millionth of a dollar each; what the server gave out is what counts."""
    server.play(lambda seen, number: SLOW)
    cap = {"usd": 2500e-6} if unit == "usd" else {"tokens": 2500}
    replies, (spent,) = ask_all(settings(concurrency=64, budget=capped(**cap)), numbered(64))
    outcomes = [reply.outcome for reply in replies]
    assert set(outcomes) == {"ok", "over_budget"}
    assert outcomes.count("ok") == len(server.seen) == spent.calls
    assert spent.tokens == 110 * len(server.seen) <= 2500
    assert spent.usd == pytest.approx(spent.tokens * 1e-6)
    # Not stopped far too early either: the bound of one more call is all that may be left.
    left = 2500 - spent.tokens
    over = next(reply for reply in replies if reply.outcome == "over_budget")
    assert int(over.reason.rsplit(" tokens")[0].rsplit(" ")[-1]) > left
    assert "cap of run 'r'" in over.reason


def test_a_stage_has_a_cap_of_its_own(server, settings):
    server.play([SLOW])
    budget = {"run": "r", "stages": {"test": Cap(tokens=1000)}}
    requests = [*numbered(20), *(r.model_copy(update={"stage": "free", "attempt": 1}) for r in numbered(20))]
    replies, spent = ask_all(settings(budget=budget), requests)
    outcomes = [reply.outcome for reply in replies]
    assert set(outcomes[:20]) == {"ok", "over_budget"}
    assert set(outcomes[20:]) == {"ok"}
    assert {row.stage: row.tokens <= 1000 for row in spent} == {"test": True, "free": False}


def test_spending_is_remembered_by_the_run(server, settings, tmp_path):
    server.play([SLOW])
    budget = capped(tokens=1500)
    ask_all(settings(cache=tmp_path / "c.db", budget=budget), numbered(20))
    server.seen.clear()
    again, _ = ask_all(settings(cache=tmp_path / "c.db", budget=budget), numbered(20, attempt=1))
    assert {reply.outcome for reply in again} == {"over_budget"}
    assert server.seen == []
    other, _ = ask_all(settings(cache=tmp_path / "c.db", budget=budget | {"run": "s"}), numbered(20, attempt=1))
    assert "ok" in {reply.outcome for reply in other}


def test_over_budget_is_asked_again_under_a_higher_cap(server, settings, tmp_path):
    server.play([SLOW])
    (reply,), _ = ask_all(settings(cache=tmp_path / "c.db", budget=capped(tokens=10)), numbered(1))
    assert (reply.outcome, reply.source, reply.usage.nano_usd) == ("over_budget", "budget", 0)
    (reply,), _ = ask_all(settings(cache=tmp_path / "c.db", budget=capped(tokens=10_000)), numbered(1))
    assert (reply.outcome, reply.source) == ("ok", "provider")


def test_what_may_have_been_charged_is_counted(server, settings):
    """A call that broke off counts at its bound; one that the endpoint turned down does not count."""
    broken = Answer(SLOW.body, 200, SLOW.headers, cut=10)
    server.play([broken, error(500, "oops"), completion("fine")])
    (reply,), (spent,) = ask_all(settings(), numbered(1))
    assert reply.outcome == "ok"
    assert spent.tokens > 2 * 110
    assert reply.usage.tokens.total == 110


@pytest.mark.parametrize("usage", [None, {"prompt_tokens": -5, "completion_tokens": 1}, {"prompt_tokens": "9"}, [1]])
def test_without_usage_the_bound_counts(server, settings, usage):
    server.play([completion("fine", usage=usage)])
    (reply,), (spent,) = ask_all(settings(), numbered(1))
    assert reply.usage.estimated
    assert reply.usage.tokens.total == spent.tokens > 110


def test_reasoning_that_only_the_total_shows_is_counted(server, settings):
    server.play([completion("x", usage={"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 500})])
    (reply,), _ = ask_all(settings(), numbered(1))
    assert reply.usage.tokens == (100, 400)


def test_a_killed_call_stays_counted(server, settings, tmp_path):
    server.play([Answer(delay_s=30)])

    async def killed():
        door = Door(settings(cache=tmp_path / "c.db", budget=capped(tokens=10**6)), SECRET)
        task = asyncio.create_task(door.ask(question(parameters=SHORT)))
        while not server.seen:
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await door.close()

    asyncio.run(killed())
    (spent,) = Budget(Database(tmp_path / "c.db"), BudgetSettings()).spent()
    assert (spent.run, spent.tokens > 110) == ("r", True)


def test_an_estimate_bounds_what_calls_cost(server, settings):
    server.play([completion("fine", usage={"prompt_tokens": 40, "completion_tokens": 20})])

    async def estimate():
        async with Door(settings(), SECRET) as door:
            before = door.estimate(numbered(10))
            await door.ask_all(numbered(4))
            return before, door.estimate(numbered(10)), door.budget.spent()

    before, after, (spent,) = asyncio.run(estimate())
    assert (before.calls, before.cached, after.cached) == (10, 0, 4)
    assert before.tokens.output == 10 * 20
    assert 0 < before.usd < before.usd_bound
    assert spent.usd < before.usd_bound * 0.4
    assert after.usd == pytest.approx(before.usd * 0.6)


def test_concurrency_is_bounded(server, settings):
    server.play([SLOW])
    ask_all(settings(concurrency=4), numbered(40))
    assert server.most_under_way == 4


def test_the_same_question_at_once_is_asked_once(server, settings):
    server.play([SLOW])
    replies, (spent,) = ask_all(settings(), [question("same")] * 50)
    assert len(server.seen) == spent.calls == 1
    assert {reply.text for reply in replies} == {"fine"}
    assert sorted({reply.source for reply in replies}) == ["cache", "provider"]


def test_who_waits_for_a_call_that_is_given_up_asks_again(server, settings):
    server.play([Answer(delay_s=30), completion("fine")])

    async def first_gives_up():
        async with Door(settings(), SECRET) as door:
            first = asyncio.create_task(door.ask(question("same")))
            while not server.seen:
                await asyncio.sleep(0.005)
            second = asyncio.create_task(door.ask(question("same")))
            await asyncio.sleep(0.01)
            first.cancel()
            return await second

    reply = asyncio.run(first_gives_up())
    assert (reply.text, reply.source, len(server.seen)) == ("fine", "provider", 2)


def test_attempts_and_stages():
    """An attempt is another call; a stage is not."""
    key = request_key("p", "m", question(), None).key
    assert request_key("p", "m", question(attempt=1), None).key != key
    assert request_key("p", "m", question().model_copy(update={"stage": "other"}), None).key == key


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self):
        self.now = 1000.0
        self.waits = []

    def __call__(self):
        return self.now

    async def sleep(self, seconds):
        self.waits.append(seconds)
        self.now += seconds


def test_requests_are_spread_over_the_minute():
    clock = Clock()
    limiter = Limiter(RateSettings(requests_per_minute=60), clock, clock.sleep)

    async def calls():
        for _ in range(62):
            await limiter.acquire(10**9)

    asyncio.run(calls())
    assert clock.now == pytest.approx(1060)  # one at once, one from the full bucket, then one a second


def test_tokens_are_spread_and_what_was_not_used_is_given_back():
    clock = Clock()
    limiter = Limiter(RateSettings(tokens_per_minute=6000), clock, clock.sleep)

    async def calls():
        for _ in range(10):
            await limiter.acquire(1000)
            limiter.settle(1000, 100)

    asyncio.run(calls())
    assert clock.now - 1000 == pytest.approx((9 * 100 - 100) / 100)


@given(st.lists(st.integers(1, 500), min_size=1, max_size=60), st.integers(100, 5000))
def test_no_minute_sees_more_than_the_rate(amounts, rate):
    clock = Clock()
    limiter = Limiter(RateSettings(tokens_per_minute=rate), clock, clock.sleep)
    gone = []

    async def calls():
        for amount in amounts:
            await limiter.acquire(amount)
            gone.append((clock.now, amount))

    asyncio.run(calls())
    for i, (start, _) in enumerate(gone):
        in_minute = [amount for moment, amount in gone[i:] if moment < start + 60]
        assert sum(in_minute[:-1]) <= rate * 61 / 60 + 1e-6  # the last one may go into debt


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 400)), max_size=40), st.integers(0, 2000))
def test_no_order_of_reservations_passes_the_cap(calls, cap):
    """`bound` is reserved, any part of it is used; some calls end before others begin."""
    budget = Budget(Database(None), BudgetSettings(cap=Cap(tokens=cap)))

    async def run():
        async def one(bound, used):
            held = await budget.reserve("s", Usage(Tokens(bound, 0), 0))
            if held is None:
                return 0
            await asyncio.sleep(0)
            budget.settle(held, Usage(Tokens(min(bound, used), 0), 0))
            return min(bound, used)

        return sum(await asyncio.gather(*(one(*call) for call in calls)))

    used = asyncio.run(run())
    spent = sum(row.tokens for row in budget.spent())
    assert used == spent <= cap


def test_prices_are_whole_nano_dollars_never_too_low():
    price = Price(input=0.15, output=0.6, batch_factor=0.5)
    assert price.nano_usd(Tokens(1000, 100)) == 150_000 + 60_000
    assert price.batched().nano_usd(Tokens(1000, 100)) == 105_000
    assert Price(input=0.0001, output=0).nano_usd(Tokens(1, 0)) == 1


def test_a_repair_turn_is_paid_from_the_same_cap(server, settings):
    server.play([completion("three")])
    (reply,), (spent,) = ask_all(settings(budget=capped(tokens=1000)), [scored(parameters=SHORT)])
    assert (reply.outcome, spent.calls) == ("over_budget", 1)
