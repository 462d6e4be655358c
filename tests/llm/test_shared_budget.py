"""One cap for several processes: leases of killed ones come back, and nobody gives up while another one hoards."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from schemas.llm import Tokens, Usage
from schemas.llm_settings import BudgetSettings, Cap
from tasks.llm.budget import Budget
from tasks.llm.database import Database
from tasks.llm.group_commit import GroupCommit
from tasks.llm.reservations import Reservation


def use(tokens: int) -> Usage:
    return Usage(Tokens(tokens, 0), 0)


def opened(file: Path, cap: int | None, lease_s: float = 60.0, **stages: Cap) -> Budget:
    """The budget of another process on the same file."""
    return Budget(Database(file), BudgetSettings(run="r", cap=Cap(tokens=cap), stages=stages, lease_s=lease_s))


def total(budget: Budget) -> int:
    return sum(row.tokens for row in budget.spent())


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work, 120))


def test_reservations_of_a_killed_process_come_back(tmp_path: Path):
    async def killed() -> None:
        budget = opened(tmp_path / "b", 1000, lease_s=0.05)
        assert await budget.reserve("s", use(600), use(50))
        assert await budget.reserve("s", use(400), use(50))
        budget.close()  # nobody renews them any more

    async def another() -> tuple[int, Reservation | None]:
        budget = opened(tmp_path / "b", 1000)
        held = await budget.reserve("s", use(900), use(1))
        return total(budget), held

    run(killed())
    counted, held = run(another())
    assert held is not None
    assert counted == 50 + 50 + 900, "what the lost calls are likely to have cost stays counted"


def test_lost_calls_count_as_the_calls_of_their_stage_but_never_above_their_bounds(tmp_path: Path):
    async def go() -> int:
        first, second, third = (opened(tmp_path / "b", 10_000, lease_s) for lease_s in (0.05, 0.05, 60))
        for _ in range(3):
            held = await first.reserve("s", use(900), use(10))
            assert held
            first.settle(held, use(200))
        await first.reserve("s", use(900), use(10))
        await first.reserve("s", use(150), use(10))
        await second.reserve("s", use(150), use(10))
        first.close()
        second.close()
        await asyncio.sleep(0.1)
        assert await third.reserve("s", use(8800)) is not None
        return total(third) - 8800

    assert run(go()) == 3 * 200 + 2 * 200 + 150


def test_a_caller_that_gives_up_leaves_no_reservation(tmp_path: Path):
    async def go() -> int:
        database = Database(tmp_path / "b")
        budget = Budget(database, BudgetSettings(run="r", cap=Cap(tokens=1000)), GroupCommit(database))
        asked = asyncio.create_task(budget.reserve("s", use(900), use(10)))
        while not total(budget):
            await asyncio.sleep(0)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        held = await budget.reserve("s", use(900), use(10))
        budget.close()
        return held is not None

    assert run(go())


def test_a_lease_is_renewed_while_its_call_is_in_flight(tmp_path: Path):
    async def go() -> None:
        budget = opened(tmp_path / "b", 1000, lease_s=0.3)
        assert await budget.reserve("s", use(900), use(1))
        read = "SELECT expires FROM leases"
        (at_first,) = Database(tmp_path / "b").execute(read).fetchone()
        while Database(tmp_path / "b").execute(read).fetchone()[0] == at_first:
            await asyncio.sleep(0.01)
        budget.close()

    run(go())


@pytest.mark.parametrize(("cap", "ample"), [(10**6, True), (8_000, False)])
def test_calls_reserve_ahead_where_there_is_much_room_and_never_less_than_they_may_use(
    tmp_path: Path, cap: int, ample: bool
):
    async def go() -> None:
        budget, other = opened(tmp_path / "b", cap), opened(tmp_path / "b", cap)
        held: list[Reservation] = []
        most_ahead = 0
        for number in range(60):
            found = await budget.reserve("s", use(100 + number), use(10))
            assert found
            held.append(found)
            if number % 3 == 2:
                budget.settle(held.pop(0), use(5))
            in_flight = sum(one.bound.tokens.total for one in held)
            most_ahead = max(most_ahead, (total(other) - (number + 1) // 3 * 5 - in_flight) // 160)
            assert in_flight <= total(other) <= cap, "other processes see at least what calls may use"
        assert most_ahead >= 16 if ample else most_ahead == 0
        for one in held:
            budget.settle(one, use(5))
        assert total(other) == 60 * 5, "the last call takes with it what was reserved ahead"

    run(go())


def test_what_was_reserved_ahead_is_given_back_before_a_call_is_refused(tmp_path: Path):
    async def go() -> None:
        budget = opened(tmp_path / "b", 100_000)
        for _ in range(9):
            assert await budget.reserve("s", use(100))
        assert total(budget) > 900
        assert await budget.reserve("s", use(100_000 - 900)), "all that calls in flight leave"
        assert total(budget) == 100_000

    run(go())


def test_a_process_waits_for_the_calls_of_another_instead_of_giving_up(tmp_path: Path):
    async def go() -> list[bool]:
        hoarder, late = opened(tmp_path / "b", 3200), opened(tmp_path / "b", 3200)
        held = [await hoarder.reserve("s", use(100)) for _ in range(32)]
        asked = [asyncio.create_task(late.reserve("s", use(100))) for _ in range(16)]
        await asyncio.sleep(0.05)
        for one in held:
            assert one
            hoarder.settle(one, use(1))
        return [await one is not None for one in asked]

    assert run(go()) == [True] * 16


def test_two_processes_share_what_is_left(tmp_path: Path):
    spent = {"first": 0, "second": 0}

    async def work(name: str, budget: Budget) -> None:
        while held := await budget.reserve("s", use(100)):
            await asyncio.sleep(0.001)
            budget.settle(held, use(25))
            spent[name] += 25

    async def go() -> None:
        first, second = opened(tmp_path / "b", 8000), opened(tmp_path / "b", 8000)
        hoarder = [asyncio.create_task(work("first", first)) for _ in range(60)]
        await asyncio.sleep(0.02)
        await asyncio.gather(*hoarder, *(work("second", second) for _ in range(60)))
        assert total(first) == sum(spent.values())

    run(go())
    assert 8000 - 100 < sum(spent.values()) <= 8000
    assert min(spent.values()) > 0.2 * 8000


@pytest.mark.parametrize("stage", [Cap(tokens=500), Cap(usd=500e-9)])
def test_a_stage_s_cap_binds_it_alone(tmp_path: Path, stage: Cap):
    async def go() -> list[bool]:
        budget = opened(tmp_path / "b", None, dear=stage)
        asked = [("dear", 300), ("dear", 501), ("free", 5000)]
        return [await budget.reserve(name, Usage(Tokens(cost, 0), cost)) is not None for name, cost in asked]

    assert run(go()) == [True, False, True]
