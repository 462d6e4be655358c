"""A process that stores calls in a shared cache under a shared cap.

`python -m tests.llm.writing_process FILE NAME CAP` prints, as JSON, the replies that stand for the 200 calls in its
eyes, and how many of them it could afford.
"""

import asyncio
import json
import sys
from pathlib import Path

from schemas.llm import Message, Price, Request, Tokens, Usage
from schemas.llm_settings import BudgetSettings, Cap
from tasks.llm.budget import Budget
from tasks.llm.cache import Cache
from tasks.llm.database import Database
from tasks.llm.exchange import Call, Exchange
from tasks.llm.key import request_key

BOUND = Usage(Tokens(10, 0))


async def main(path: Path, name: str, cap: int) -> None:
    database = Database(path)
    cache, budget = Cache(database), Budget(database, BudgetSettings(run="r", cap=Cap(tokens=cap)))
    stand, afforded = {}, 0
    for number in range(200):
        request = Request(messages=(Message(role="user", content=f"{number}"),), stage="s")
        keyed = request_key("p", "m", request, None)
        call = Call(keyed, "p", "m", "", "s", b"", Price(input=0, output=0), BOUND, BOUND)
        (kept,) = cache.keep([(call, Exchange(keyed.key, "ok", "provider", raw=name.encode()))])
        stand[keyed.key] = kept.raw.decode()
        if held := await budget.reserve("s", BOUND):
            afforded += 1
            budget.settle(held, BOUND)
    print(json.dumps({"stand": stand, "afforded": afforded}))  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
