"""What calls in flight reserve of a budget, and whether the caps have room for one more."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import add
from typing import Literal, NamedTuple

from schemas.llm import Usage

AMPLE = 0.02
"""Share of what is left of a cap up to which calls in flight and ahead may reserve it."""

RoomState = Literal["free", "later", "never"]


@dataclass(slots=True)
class Reservation:
    """The maximum cost of a call, and what it is likely to cost; `granted` once the caps have room for it."""

    stage: str
    bound: Usage
    likely: Usage
    granted: bool = False


class Amounts(NamedTuple):
    """What calls reserve together, in nano-dollars and tokens."""

    calls: int = 0
    nano_usd: int = 0
    tokens: int = 0
    likely_nano_usd: int = 0
    likely_tokens: int = 0

    def plus(self, held: Reservation, times: int = 1) -> "Amounts":
        """Returns the amounts with those of a call added so many times."""
        bound, likely = held.bound, held.likely
        return Amounts(
            self.calls + times,
            self.nano_usd + times * bound.nano_usd,
            self.tokens + times * bound.tokens.total,
            self.likely_nano_usd + times * likely.nano_usd,
            self.likely_tokens + times * likely.tokens.total,
        )


NOTHING = Amounts()


@dataclass(slots=True)
class Lease:
    """What a stage reserves for one process: for its calls in flight, and ahead for those that come next."""

    in_flight: Amounts = NOTHING
    ahead: Amounts = NOTHING

    @property
    def held(self) -> Amounts:
        """All of it."""
        return Amounts(*map(add, self.in_flight, self.ahead))

    def grant(self, asked: Reservation) -> None:
        """Grants a call for which the caps have room."""
        asked.granted = True
        self.in_flight = self.in_flight.plus(asked)

    def grant_ahead(self, asked: Reservation) -> bool:
        """Lets a call take what is reserved ahead; returns False if too little is left for it."""
        left = self.ahead.plus(asked, -1)
        if min(left) < 0:
            return False
        self.ahead = left
        self.grant(asked)
        return True

    def end(self, ended: Reservation) -> None:
        """Takes a call's reservation off; nothing is reserved ahead when no call is left."""
        self.in_flight = self.in_flight.plus(ended, -1)
        if not self.in_flight.calls:
            self.ahead = NOTHING


@dataclass(slots=True)
class Room:
    """What the caps leave: nano-dollars and tokens of the run, then of a stage.

    Attributes:
        caps: The caps; empty when there are none.
        spent: What is spent.
        reserved: What calls in flight reserve.
        own: What of it this process reserves.
        waiting: How many other processes wait for room.
    """

    caps: Sequence[int | None] = ()
    spent: Sequence[int] = ()
    reserved: Sequence[int] = ()
    own: Sequence[int] = ()
    waiting: int = 0

    def find(self, bound: Usage) -> RoomState:
        """Returns whether a call fits now (`free`), when calls in flight have ended (`later`), or `never`."""
        room: RoomState = "free"
        more = _amounts(bound)
        for cap, used, open_, mine, asked in zip(self.caps, self.spent, self.reserved, self.own, more, strict=False):
            if cap is None:
                continue
            if used + asked > cap:
                return "never"
            unfair = self.waiting and mine and mine + asked > (cap - used) / (1 + self.waiting)
            if unfair or used + open_ + asked > cap:
                room = "later"
        return room

    def is_ample(self, bound: Usage, calls: int) -> bool:
        """Returns whether so many calls take a small part of what is left, and nobody waits for it."""
        more = _amounts(bound, calls)
        left = zip(self.caps, self.spent, self.reserved, more, strict=False)
        return not self.waiting and all(
            cap is None or open_ + asked <= (cap - used) * AMPLE for cap, used, open_, asked in left
        )

    def take(self, bound: Usage) -> None:
        """Counts a further reservation of this process."""
        more = _amounts(bound)
        self.reserved = [had + asked for had, asked in zip(self.reserved, more, strict=False)]
        self.own = [had + asked for had, asked in zip(self.own, more, strict=False)]


def _amounts(bound: Usage, calls: int = 1) -> tuple[int, ...]:
    """Returns what calls take of the caps: nano-dollars and tokens of the run, then of the stage."""
    return (bound.nano_usd * calls, bound.tokens.total * calls) * 2
