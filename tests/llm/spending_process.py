"""A process that spends from a cap that it shares: `python -m tests.llm.spending_process FILE CAP IN_FLIGHT SECONDS`.

A call reserves 400 tokens, takes up to SECONDS, and uses 100. What it uses is written to standard output before it is
settled, as an endpoint would bill it. The process ends when the cap allows no further call.
"""

import asyncio
import random
import sys
from pathlib import Path

from schemas.llm import Tokens, Usage
from schemas.llm_settings import BudgetSettings, Cap
from tasks.llm.budget import Budget
from tasks.llm.database import Database
from tasks.llm.group_commit import GroupCommit

BOUND, LIKELY, USED = Usage(Tokens(400, 0)), Usage(Tokens(80, 0)), Usage(Tokens(100, 0))
LEASE_S = 1.0


async def spend(file: Path, cap: int, in_flight: int, seconds: float) -> None:
    database = Database(file)
    settings = BudgetSettings(run="r", cap=Cap(tokens=cap), lease_s=LEASE_S)
    budget = Budget(database, settings, GroupCommit(database))

    async def work() -> None:
        while held := await budget.reserve("s", BOUND, LIKELY):
            await asyncio.sleep(random.uniform(0, seconds))
            sys.stdout.write(f"{USED.tokens.total}\n")
            sys.stdout.flush()
            budget.settle(held, USED)

    await asyncio.gather(*(work() for _ in range(in_flight)))
    budget.close()


if __name__ == "__main__":
    asyncio.run(spend(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])))
