"""Writes that share a transaction: none waits for company that does not come, each gets its own result."""

import asyncio
from collections.abc import Sequence

import pytest

from schemas.errors import StoreError
from tasks.llm.database import Database
from tasks.llm.group_commit import LONGEST_S, GroupCommit
from tests.llm.test_gate import in_jumping_time

TABLE = "CREATE TABLE numbers (number INTEGER PRIMARY KEY)"


class Numbers:
    """Writes numbers, and remembers which were written together."""

    def __init__(self) -> None:
        self.database = Database(None, TABLE, "numbers")
        self.writes: list[list[int]] = []

    def write(self, numbers: Sequence[int]) -> list[int]:
        self.writes.append(list(numbers))
        for number in numbers:
            self.database.execute("INSERT INTO numbers VALUES (?)", (number,))
        return [10 * number for number in numbers]


def test_a_single_write_is_made_at_once() -> None:
    async def work() -> float:
        numbers = Numbers()
        assert await GroupCommit(numbers.database).run(numbers.write, 1) == 10
        return asyncio.get_running_loop().time()

    assert in_jumping_time(work()) == 0


def test_writes_that_keep_coming_share_a_transaction_until_the_longest_wait() -> None:
    async def work() -> list[list[int]]:
        numbers, loop = Numbers(), asyncio.get_running_loop()
        group = GroupCommit(numbers.database)
        results: list[asyncio.Future[int]] = []
        for number in range(40):
            results.append(group.hand_over(numbers.write, number))
            await asyncio.sleep(0)
            loop.now += LONGEST_S / 10  # pyright: ignore[reportAttributeAccessIssue]
        assert await asyncio.gather(*results) == [10 * number for number in range(40)]
        return numbers.writes

    assert 1 < len(in_jumping_time(work())) <= 6


def test_a_write_whose_caller_gave_up_is_not_made_and_one_that_fails_undoes_all() -> None:
    async def work() -> None:
        numbers = Numbers()
        group = GroupCommit(numbers.database)
        given_up, kept = group.hand_over(numbers.write, 1), group.hand_over(numbers.write, 2)
        given_up.cancel()
        assert await kept == 20
        repeated = [group.hand_over(numbers.write, number) for number in (3, 2)]
        for result in repeated:
            with pytest.raises(StoreError, match="numbers"):
                await result
        assert numbers.database.execute("SELECT number FROM numbers").fetchall() == [(2,)]

    asyncio.run(work())
