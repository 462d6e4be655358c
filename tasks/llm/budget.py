"""Spending caps of a run and its stages: a call reserves its maximum cost, and settles its real cost afterwards."""

import asyncio
import logging
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain, groupby
from typing import NamedTuple, TypeVar

from schemas.errors import StoreError
from schemas.llm import NO_USAGE, Tokens, Usage
from schemas.llm_settings import BudgetSettings, Cap
from tasks.llm.database import Database
from tasks.llm.group_commit import GroupCommit
from tasks.llm.reservations import NOTHING, Lease, Reservation, Room, RoomState

logger = logging.getLogger(__name__)

POLL_S = 0.1
"""Seconds between two tries of a call that waits for calls of other processes."""

WAITING_S = 10.0
"""Seconds for which a process counts as waiting after its last try."""

FEW_CALLS = 8
"""Calls in flight from which a process reserves for the next ones too."""

RENEWALS = 6
"""How often a lease is renewed in its time."""

_TOTALS = """
SELECT ifnull(sum(nano_usd), 0), ifnull(sum(tokens), 0),
  ifnull(sum(nano_usd) FILTER (WHERE stage = :stage), 0), ifnull(sum(tokens) FILTER (WHERE stage = :stage), 0)
FROM {table} WHERE run = :run
"""
_SPENT = _TOTALS.format(table="spending")
_RESERVED = _TOTALS.format(table="leases")
_OWN = f"{_RESERVED} AND holder = :holder"
_LEASE = "INSERT OR REPLACE INTO leases VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_OTHERS_WAITING = "SELECT count(*) FROM waiting WHERE run = :run AND holder <> :holder AND expires > :now"
_SETTLE = """
INSERT INTO spending VALUES (:run, :stage, :nano_usd, :tokens, :calls) ON CONFLICT (run, stage) DO UPDATE SET
  nano_usd = nano_usd + excluded.nano_usd, tokens = tokens + excluded.tokens, calls = calls + excluded.calls
"""
_STATEMENT = """
SELECT run, stage, sum(calls), sum(tokens), sum(nano_usd) / 1e9 FROM (
  SELECT run, stage, calls, tokens, nano_usd FROM spending
  UNION ALL SELECT run, stage, 0, tokens, nano_usd FROM leases
) GROUP BY run, stage ORDER BY run, stage
"""

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


class Spent(NamedTuple):
    """Spending of one stage. In-flight calls count at their maximum cost."""

    run: str
    stage: str
    calls: int
    tokens: int
    usd: float


class Budget:
    """Keeps a run within its caps across concurrent calls, processes and machines that share the database.

    The reservations of a process and stage are one lease, which the process renews while calls are in flight. When it
    is killed, the lease expires, and what the calls were not likely to cost comes back. What they were likely to cost
    stays counted, because it may have been billed.

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
        self._leases: defaultdict[str, Lease] = defaultdict(Lease)
        self._queues: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._settled = asyncio.Event()
        self._waits = False
        self._renewing: asyncio.Task[None] | None = None

    async def reserve(self, stage: str, bound: Usage, likely: Usage = NO_USAGE) -> Reservation | None:
        """Reserves the maximum cost of a call; returns None if the caps do not allow it.

        If only calls in flight, of any process, stand in the way, waits for them: most use less than they reserved.

        Args:
            stage: Who pays.
            bound: The most that the call can use.
            likely: What stays counted if this process is killed during the call.
        """
        asked = Reservation(stage, bound, likely)
        try:
            return asked if await self._wait_for_room(asked) else None
        except asyncio.CancelledError:
            if asked.granted:
                self.settle(asked, NO_USAGE)
            raise

    async def _wait_for_room(self, asked: Reservation) -> bool:
        if self._leases[asked.stage].grant_ahead(asked):
            return True
        queue = self._queues[asked.stage]
        room = "later" if queue.locked() else await self._write(self._take, asked)
        if room == "later":
            async with queue:
                while (room := await self._write(self._take, asked)) == "later":
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._settled.wait(), POLL_S)
        if room == "free" and (self._renewing is None or self._renewing.done()):
            self._renewing = asyncio.create_task(self._renew())
        return room == "free"

    def settle(self, held: Reservation, used: Usage) -> None:
        """Replaces a reservation by the real usage of the call, in its turn among the writes."""
        if self._group:
            self._group.hand_over(self._settle, (held, used))
        else:
            with self._database.transaction():
                self._settle([(held, used)])

    def _settle(self, ended: Sequence[tuple[Reservation, Usage]]) -> Sequence[None]:
        by_stage: defaultdict[str, list[Usage]] = defaultdict(list)
        for held, used in ended:
            _warn_above(held.stage, held.bound, used)
            self._leases[held.stage].end(held)
            by_stage[held.stage].append(used)
        for stage, usages in by_stage.items():
            tokens, nano_usd = sum(used.tokens.total for used in usages), sum(used.nano_usd for used in usages)
            billed = sum(used.tokens.total > 0 for used in usages)
            self._add(self._settings.run, stage, Usage(Tokens(tokens, 0), nano_usd), calls=billed)
            self._write_lease(stage)
        self._settled.set()
        self._settled = asyncio.Event()
        return [None] * len(ended)

    def take(self, stage: str, bound: Usage) -> bool:
        """Counts the maximum cost of a batch call as spent; `correct` replaces it later, in any process."""
        with self._database.transaction():
            if free := self._room(stage).find(bound) == "free":
                self._add(self._settings.run, stage, bound)
            return free

    def correct(self, stage: str, taken: Usage, used: Usage, run: str = "") -> None:
        """Replaces what `take` counted for a call, in this run or the one named, by its real usage."""
        _warn_above(stage, taken, used)
        tokens = Tokens(used.tokens.input - taken.tokens.input, used.tokens.output - taken.tokens.output)
        change = Usage(tokens, used.nano_usd - taken.nano_usd)
        self._add(run or self._settings.run, stage, change, calls=int(used.tokens.total > 0))

    def spent(self) -> list[Spent]:
        """Returns the spending of every run in the database, by stage."""
        return [Spent(*row) for row in self._database.execute(_STATEMENT)]

    async def _write(self, write: Callable[[Sequence[ItemT]], Sequence[ResultT]], item: ItemT) -> ResultT:
        if self._group:
            return await self._group.run(write, item)
        with self._database.transaction():
            return write([item])[0]

    def _take(self, asked: Sequence[Reservation]) -> list[RoomState]:
        """Grants the reservations for which there is room; returns what was found for each."""
        by_stage = groupby(asked, key=lambda one: one.stage)
        return [found for stage, of_stage in by_stage for found in self._take_for(stage, [*of_stage])]

    def _take_for(self, stage: str, asked: Sequence[Reservation]) -> list[RoomState]:
        now, room, lease, states = time.time(), self._room(stage), self._leases[stage], list[RoomState]()
        for one in asked:
            found = room.find(one.bound)
            if found != "free" and (self._expire(now) or lease.ahead.calls):
                lease.ahead = NOTHING
                self._write_lease(stage)
                room = self._room(stage)
                found = room.find(one.bound)
            if found == "free":
                room.take(one.bound)
                lease.grant(one)
            states.append(found)
        calls = lease.in_flight.calls
        ample = calls >= FEW_CALLS and room.is_ample(asked[-1].bound, calls)
        lease.ahead = NOTHING.plus(asked[-1], calls) if ample else NOTHING
        if "free" in states:
            self._write_lease(stage)
        mark = (self._settings.run, self._holder)
        if "later" in states:
            self._database.execute("INSERT OR REPLACE INTO waiting VALUES (?, ?, ?)", (*mark, now + WAITING_S))
        elif self._waits:
            self._database.execute("DELETE FROM waiting WHERE run = ? AND holder = ?", mark)
        self._waits = "later" in states
        return states

    def _write_lease(self, stage: str) -> None:
        """Stores what the stage's calls in flight reserve for this process, for as long as a lease lasts."""
        key, lease = (self._settings.run, stage, self._holder), self._leases[stage]
        if lease.in_flight.calls:
            self._database.execute(_LEASE, (*key, time.time() + self._settings.lease_s, *lease.held))
        else:
            self._database.execute("DELETE FROM leases WHERE run = ? AND stage = ? AND holder = ?", key)

    def _room(self, stage: str) -> Room:
        caps = self._caps(stage)
        if not any(cap is not None for cap in caps):
            return Room()
        named = {"run": self._settings.run, "stage": stage, "holder": self._holder, "now": time.time()}
        spent, reserved, own = (self._database.execute(sql, named).fetchone() for sql in (_SPENT, _RESERVED, _OWN))
        (waiting,) = self._database.execute(_OTHERS_WAITING, named).fetchone()
        return Room(caps, spent, reserved, own, waiting)

    def _expire(self, now: float) -> bool:
        """Gives back what killed processes have reserved, up to what their calls are likely to have cost."""
        lost = self._database.execute(
            "DELETE FROM leases WHERE expires < ? "
            "RETURNING run, stage, calls, nano_usd, tokens, likely_nano_usd, likely_tokens",
            (now,),
        ).fetchall()
        for run, stage, calls, *bound_and_likely in lost:
            nano_usd, tokens = self._cost_of_lost(run, stage, calls, bound_and_likely)
            self._add(run, stage, Usage(Tokens(tokens, 0), nano_usd), calls)
            logger.warning("%d calls of a killed process count as what such calls usually cost", calls)
        return bool(lost)

    def _cost_of_lost(self, run: str, stage: str, calls: int, bound_and_likely: Sequence[int]) -> tuple[int, int]:
        """Returns nano-dollars and tokens: the likely ones or the stage's average, the larger ones up to the bound."""
        found = self._database.execute(
            "SELECT nano_usd, tokens, calls FROM spending WHERE run = ? AND stage = ? AND calls > 0", (run, stage)
        ).fetchone()
        usual = [-(-total * calls // found[2]) for total in found[:2]] if found else [0, 0]
        bound, likely = bound_and_likely[:2], bound_and_likely[2:]
        nano_usd, tokens = (min(b, max(pair)) for b, *pair in zip(bound, likely, usual, strict=True))
        return nano_usd, tokens

    async def _renew(self) -> None:
        """Renews the leases of this process while it has calls in flight."""
        while held := [stage for stage, lease in self._leases.items() if lease.in_flight.calls]:
            await asyncio.sleep(self._settings.lease_s / RENEWALS)
            try:
                await self._write(self._extend, held)
            except StoreError as error:
                logger.warning("the leases of stages %s are not renewed: %s", ", ".join(held), error)

    def _extend(self, held: Sequence[Sequence[str]]) -> Sequence[None]:
        for stage in chain.from_iterable(held):
            self._write_lease(stage)
        return [None] * len(held)

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
