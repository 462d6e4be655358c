"""Spending caps of a run and its stages: a call reserves its maximum cost, and settles its real cost afterwards."""

import asyncio
import logging
from collections import Counter
from functools import partial
from typing import NamedTuple

from schemas.llm import Usage
from schemas.llm_settings import BudgetSettings, Cap
from tasks.llm.database import Database
from tasks.llm.group_commit import GroupCommit

logger = logging.getLogger(__name__)

_TOTALS = """
SELECT ifnull(sum(nano_usd), 0) AS run_usd, ifnull(sum(tokens), 0) AS run_tokens,
  ifnull(sum(nano_usd) FILTER (WHERE stage = :stage), 0) AS stage_usd,
  ifnull(sum(tokens) FILTER (WHERE stage = :stage), 0) AS stage_tokens
FROM spending WHERE run = :run
"""
_ADD = """
ON CONFLICT (run, stage) DO UPDATE SET
  nano_usd = nano_usd + excluded.nano_usd, tokens = tokens + excluded.tokens, calls = calls + excluded.calls
"""
_RESERVE = f"""
INSERT INTO spending SELECT :run, :stage, :nano_usd, :tokens, 0 FROM ({_TOTALS})
WHERE (:cap_run_usd IS NULL OR run_usd + :nano_usd <= :cap_run_usd)
  AND (:cap_run_tokens IS NULL OR run_tokens + :tokens <= :cap_run_tokens)
  AND (:cap_stage_usd IS NULL OR stage_usd + :nano_usd <= :cap_stage_usd)
  AND (:cap_stage_tokens IS NULL OR stage_tokens + :tokens <= :cap_stage_tokens)
{_ADD}
"""
_SETTLE = f"INSERT INTO spending VALUES (:run, :stage, :nano_usd, :tokens, :calls) {_ADD}"


class Spent(NamedTuple):
    """Spending of one stage. In-flight and killed calls count at their maximum cost."""

    run: str
    stage: str
    calls: int
    tokens: int
    usd: float


class Budget:
    """Keeps a run within its caps across concurrent calls and processes.

    A reservation is one SQL statement, so that two processes cannot both take the last dollar. The reservations of a
    killed process stay counted, because its calls may have been billed.

    Args:
        database: Where spending is stored.
        settings: The run and its caps.
        group: Commits reservations together with other writes; None: each by itself.
    """

    def __init__(self, database: Database, settings: BudgetSettings, group: GroupCommit | None = None) -> None:
        self._database = database
        self._group = group
        self._settings = settings
        self._in_flight = 0
        self._held_usd: Counter[str] = Counter()
        self._held_tokens: Counter[str] = Counter()
        self._settled = asyncio.Event()

    async def reserve(self, stage: str, bound: Usage) -> bool:
        """Reserves the maximum cost of a call; returns False if the cap does not allow it.

        If only reservations of calls in flight exceed the cap, waits for those calls: most use less than they reserved.
        """
        take = partial(self._take_and_hold, stage, bound)
        while not (await self._group.run(take) if self._group else take()):
            if not self._may_fit(stage, bound):
                return False
            if self._in_flight:
                await self._settled.wait()
        return True

    def _take_and_hold(self, stage: str, bound: Usage) -> bool:
        if taken := self.take(stage, bound):
            self._hold(stage, bound, 1)
        return taken

    def settle(self, stage: str, reserved: Usage, used: Usage) -> None:
        """Replaces a reservation by the real usage of the call, in its turn among the writes."""
        settle = partial(self._settle, stage, reserved, used)
        self._group.hand_over(settle) if self._group else settle()

    def _settle(self, stage: str, reserved: Usage, used: Usage) -> None:
        self.correct(stage, reserved, used)
        self._hold(stage, reserved, -1)
        self._settled.set()
        self._settled = asyncio.Event()

    def take(self, stage: str, bound: Usage) -> bool:
        """Reserves the maximum cost of a call without waiting; `correct` replaces it later, in any process."""
        asked = {"run": self._settings.run, "stage": stage, "nano_usd": bound.nano_usd, "tokens": bound.tokens.total}
        caps = {f"cap_{name}": cap for name, cap in self._caps(stage).items()}
        return self._database.execute(_RESERVE, asked | caps).rowcount == 1

    def correct(self, stage: str, taken: Usage, used: Usage, run: str = "") -> None:
        """Replaces the reservation of a call, made by this run or the one named, by its real usage."""
        if used.nano_usd > taken.nano_usd or used.tokens.total > taken.tokens.total:
            logger.warning("stage %s: a call used %s, above its bound of %s", stage, used, taken)
        self._database.execute(
            _SETTLE,
            {
                "run": run or self._settings.run,
                "stage": stage,
                "nano_usd": used.nano_usd - taken.nano_usd,
                "tokens": used.tokens.total - taken.tokens.total,
                "calls": int(used.tokens.total > 0),
            },
        )

    def spent(self) -> list[Spent]:
        """Returns the spending of every run in the database, by stage."""
        rows = self._database.execute(
            "SELECT run, stage, calls, tokens, nano_usd / 1e9 FROM spending ORDER BY run, stage"
        )
        return [Spent(*row) for row in rows]

    def _may_fit(self, stage: str, bound: Usage) -> bool:
        """Returns whether the call would fit if this process's calls in flight cost nothing."""
        spent = self._database.execute(_TOTALS, {"run": self._settings.run, "stage": stage}).fetchone()
        held = (
            *(self._held_usd.total(), self._held_tokens.total()),
            *(self._held_usd[stage], self._held_tokens[stage]),
        )
        asked = (bound.nano_usd, bound.tokens.total) * 2
        caps = self._caps(stage).values()
        return all(
            cap is None or total - open_ + more <= cap
            for total, open_, more, cap in zip(spent, held, asked, caps, strict=True)
        )

    def _caps(self, stage: str) -> dict[str, int | None]:
        """Returns the caps that apply to a stage, in the order of the totals; USD as nano-dollars."""
        run, own = self._settings.cap, self._settings.stages.get(stage, Cap())
        return {
            "run_usd": _nano(run.usd),
            "run_tokens": run.tokens,
            "stage_usd": _nano(own.usd),
            "stage_tokens": own.tokens,
        }

    def _hold(self, stage: str, reserved: Usage, sign: int) -> None:
        self._in_flight += sign
        self._held_usd[stage] += sign * reserved.nano_usd
        self._held_tokens[stage] += sign * reserved.tokens.total


def _nano(usd: float | None) -> int | None:
    return None if usd is None else int(usd * 1e9)
