"""Spending caps of a run and its stages: a call reserves its maximum cost, and settles its real cost afterwards."""

import asyncio
import logging
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple, TypeVar

from schemas.errors import StoreError
from schemas.llm import NO_USAGE, Tokens, Usage
from schemas.llm_settings import BudgetSettings, Cap
from tasks.llm.database import Database
from tasks.llm.group_commit import GroupCommit

logger = logging.getLogger(__name__)

POLL_S = 0.1
"""Seconds between two tries of a call that waits for calls of other processes."""

WAITING_S = 10.0
"""Seconds for which a process counts as waiting after its last try."""

RENEWALS = 6
"""How often a lease is renewed in its time."""

_TOTALS = """
SELECT ifnull(sum(nano_usd), 0), ifnull(sum(tokens), 0),
  ifnull(sum(nano_usd) FILTER (WHERE stage = :stage), 0), ifnull(sum(tokens) FILTER (WHERE stage = :stage), 0)
FROM {table} WHERE run = :run
"""
_SPENT = _TOTALS.format(table="spending")
_RESERVED = _TOTALS.format(table="reserved")
_OWN = f"{_RESERVED} AND holder = :holder"
_OTHERS_WAITING = "SELECT count(*) FROM waiting WHERE run = :run AND holder <> :holder AND expires > :now"
_SETTLE = """
INSERT INTO spending VALUES (:run, :stage, :nano_usd, :tokens, :calls) ON CONFLICT (run, stage) DO UPDATE SET
  nano_usd = nano_usd + excluded.nano_usd, tokens = tokens + excluded.tokens, calls = calls + excluded.calls
"""
_STATEMENT = """
SELECT run, stage, sum(calls), sum(tokens), sum(nano_usd) / 1e9 FROM (
  SELECT run, stage, calls, tokens, nano_usd FROM spending
  UNION ALL SELECT run, stage, 0, tokens, nano_usd FROM reserved
) GROUP BY run, stage ORDER BY run, stage
"""

ResultT = TypeVar("ResultT")


class Spent(NamedTuple):
    """Spending of one stage. In-flight calls count at their maximum cost."""

    run: str
    stage: str
    calls: int
    tokens: int
    usd: float


class Reservation(NamedTuple):
    """The maximum cost of a call in flight, as it is stored."""

    id: int
    stage: str
    bound: Usage


class Budget:
    """Keeps a run within its caps across concurrent calls, processes and machines that share the database.

    A reservation is a lease: its process renews it while the call is in flight. When the process is killed, the lease
    expires, and what the call was not likely to cost comes back. What it was likely to cost stays counted, because it
    may have been billed.

    While a process waits for room, every other one that works on the run takes at most its share of what is left.

    Args:
        database: Where spending is stored.
        settings: The run, its caps and the length of a lease.
        group: Commits reservations together with other writes; None: each by itself.
    """

    def __init__(self, database: Database, settings: BudgetSettings, group: GroupCommit | None = None) -> None:
        self._database = database
        self._group = group
        self._settings = settings
        self._holder = uuid.uuid4().hex
        self._held: set[int] = set()
        self._queues: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._settled = asyncio.Event()
        self._renewing: asyncio.Task[None] | None = None

    async def reserve(self, stage: str, bound: Usage, likely: Usage = NO_USAGE) -> Reservation | None:
        """Reserves the maximum cost of a call; returns None if the caps do not allow it.

        If only calls in flight, of any process, stand in the way, waits for them: most use less than they reserved.

        Args:
            stage: Who pays.
            bound: The most that the call can use.
            likely: What stays counted if this process is killed during the call.
        """
        take = partial(self._take, stage, bound, likely)
        queue = self._queues[stage]
        taken = None if queue.locked() else await self._write(take)
        if taken is None:
            async with queue:
                while (taken := await self._write(take)) is None:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._settled.wait(), POLL_S)
        if taken < 0:
            return None
        self._held.add(taken)
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._renew())
        return Reservation(taken, stage, bound)

    def settle(self, held: Reservation, used: Usage) -> None:
        """Replaces a reservation by the real usage of the call, in its turn among the writes."""
        self._held.discard(held.id)
        settle = partial(self._settle, held, used)
        if self._group:
            self._group.hand_over(settle)
        else:
            with self._database.transaction():
                settle()

    def _settle(self, held: Reservation, used: Usage) -> None:
        self._database.execute("DELETE FROM reserved WHERE id = ?", (held.id,))
        _warn_above(held.stage, held.bound, used)
        self._add(self._settings.run, held.stage, used, calls=int(used.tokens.total > 0))
        self._settled.set()
        self._settled = asyncio.Event()

    def take(self, stage: str, bound: Usage) -> bool:
        """Counts the maximum cost of a batch call as spent; `correct` replaces it later, in any process."""
        with self._database.transaction():
            if room := self._room(stage, bound) == "free":
                self._add(self._settings.run, stage, bound)
            return room

    def correct(self, stage: str, taken: Usage, used: Usage, run: str = "") -> None:
        """Replaces what `take` counted for a call, in this run or the one named, by its real usage."""
        _warn_above(stage, taken, used)
        tokens = Tokens(used.tokens.input - taken.tokens.input, used.tokens.output - taken.tokens.output)
        change = Usage(tokens, used.nano_usd - taken.nano_usd)
        self._add(run or self._settings.run, stage, change, calls=int(used.tokens.total > 0))

    def spent(self) -> list[Spent]:
        """Returns the spending of every run in the database, by stage."""
        return [Spent(*row) for row in self._database.execute(_STATEMENT)]

    async def _write(self, work: Callable[[], ResultT]) -> ResultT:
        if self._group:
            return await self._group.run(work)
        with self._database.transaction():
            return work()

    def _take(self, stage: str, bound: Usage, likely: Usage) -> int | None:
        """Returns the id of a new reservation; None: it has to wait; -1: the caps never allow it."""
        now = time.time()
        room = self._room(stage, bound)
        if room != "free" and self._expire(now):
            room = self._room(stage, bound)
        if room == "never":
            return -1
        mark = {"run": self._settings.run, "holder": self._holder}
        if room == "later":
            row = mark | {"expires": now + WAITING_S}
            self._database.execute("INSERT OR REPLACE INTO waiting VALUES (:run, :holder, :expires)", row)
            return None
        self._database.execute("DELETE FROM waiting WHERE run = :run AND holder = :holder", mark)
        row = (stage, bound.nano_usd, bound.tokens.total, likely.nano_usd, likely.tokens.total)
        added = self._database.execute(
            "INSERT INTO reserved (run, holder, expires, stage, nano_usd, tokens, likely_nano_usd, likely_tokens) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (self._settings.run, self._holder, now + self._settings.lease_s, *row),
        )
        assert added.lastrowid is not None
        return added.lastrowid

    def _room(self, stage: str, bound: Usage) -> str:
        """Returns whether a call fits now (`free`), when calls in flight have ended (`later`), or `never`."""
        caps = self._caps(stage)
        if not any(cap is not None for cap in caps):
            return "free"
        named = {"run": self._settings.run, "stage": stage, "holder": self._holder, "now": time.time()}
        spent, reserved, own = (self._database.execute(sql, named).fetchone() for sql in (_SPENT, _RESERVED, _OWN))
        (waiting,) = self._database.execute(_OTHERS_WAITING, named).fetchone()
        room = "free"
        more = (bound.nano_usd, bound.tokens.total) * 2
        for cap, used, open_, mine, asked in zip(caps, spent, reserved, own, more, strict=True):
            if cap is None:
                continue
            if used + asked > cap:
                return "never"
            unfair = waiting and mine and mine + asked > (cap - used) / (1 + waiting)
            if unfair or used + open_ + asked > cap:
                room = "later"
        return room

    def _expire(self, now: float) -> bool:
        """Gives back the reservations of killed processes, up to what their calls are likely to have cost."""
        lost = self._database.execute(
            "DELETE FROM reserved WHERE expires < ? "
            "RETURNING run, stage, nano_usd, tokens, likely_nano_usd, likely_tokens",
            (now,),
        ).fetchall()
        for run, stage, *bound_and_likely in lost:
            nano_usd, tokens = self._cost_of_lost(run, stage, bound_and_likely)
            self._add(run, stage, Usage(Tokens(tokens, 0), nano_usd), calls=1)
        if lost:
            logger.warning("%d calls of killed processes count as what such calls usually cost", len(lost))
        return bool(lost)

    def _cost_of_lost(self, run: str, stage: str, bound_and_likely: Sequence[int]) -> tuple[int, int]:
        """Returns nano-dollars and tokens: the likely ones or the stage's average, the larger ones up to the bound."""
        found = self._database.execute(
            "SELECT nano_usd, tokens, calls FROM spending WHERE run = ? AND stage = ? AND calls > 0", (run, stage)
        ).fetchone()
        usual = [-(-total // found[2]) for total in found[:2]] if found else [0, 0]
        bound, likely = bound_and_likely[:2], bound_and_likely[2:]
        nano_usd, tokens = (min(b, max(pair)) for b, *pair in zip(bound, likely, usual, strict=True))
        return nano_usd, tokens

    async def _renew(self) -> None:
        """Renews the leases of this process while it has calls in flight."""
        while self._held:
            await asyncio.sleep(self._settings.lease_s / RENEWALS)
            held = sorted(self._held)
            expires = time.time() + self._settings.lease_s
            try:
                await self._write(partial(self._extend, held, expires))
            except StoreError as error:
                logger.warning("the leases of %d calls are not renewed: %s", len(held), error)

    def _extend(self, held: Sequence[int], expires: float) -> None:
        for place in range(0, len(held), 500):
            ids = ",".join(map(str, held[place : place + 500]))
            self._database.execute(f"UPDATE reserved SET expires = ? WHERE id IN ({ids})", (expires,))

    def close(self) -> None:
        """Ends the renewal of leases."""
        if self._renewing:
            self._renewing.cancel()

    def _add(self, run: str, stage: str, used: Usage, calls: int = 0) -> None:
        row = {"run": run, "stage": stage, "nano_usd": used.nano_usd, "tokens": used.tokens.total, "calls": calls}
        self._database.execute(_SETTLE, row)

    def _caps(self, stage: str) -> tuple[int | None, ...]:
        """Returns the caps that apply to a stage: of the run, then its own; nano-dollars and tokens of each."""
        run, own = self._settings.cap, self._settings.stages.get(stage, Cap())
        return _nano(run.usd), run.tokens, _nano(own.usd), own.tokens


def _warn_above(stage: str, bound: Usage, used: Usage) -> None:
    if used.nano_usd > bound.nano_usd or used.tokens.total > bound.tokens.total:
        logger.warning("stage %s: a call used %s, above its bound of %s", stage, used, bound)


def _nano(usd: float | None) -> int | None:
    return None if usd is None else int(usd * 1e9)
