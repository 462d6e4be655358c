"""Writes that share a transaction: none waits for company that does not come, each gets its own result."""

import asyncio
from collections.abc import Sequence

import pytest

from schemas.errors import StoreError
from tasks.llm.database import Database
from tasks.llm.group_commit import GroupCommit
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


def test_writes_of_one_turn_are_made_together_and_each_has_its_result() -> None:
    async def work() -> list[list[int]]:
        numbers = Numbers()
        group = GroupCommit(numbers.database)
        for first in (0, 20):
            results = [group.hand_over(numbers.write, number) for number in range(first, first + 20)]
            assert await asyncio.gather(*results) == [10 * number for number in range(first, first + 20)]
        return numbers.writes

    assert asyncio.run(work()) == [list(range(20)), list(range(20, 40))]


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
