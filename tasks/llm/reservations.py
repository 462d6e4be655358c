"""What calls in flight reserve of a budget, and whether the caps have room for one more."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from schemas.llm import Usage

RoomState = Literal["free", "later", "never"]


@dataclass(slots=True)
class Reservation:
    """The maximum cost of a call, and what it is likely to cost; `granted` once the caps have room for it."""

    stage: str
    bound: Usage
    likely: Usage
    granted: bool = False


@dataclass(slots=True)
class Lease:
    """What a stage's calls in flight reserve for one process, in nano-dollars and tokens."""

    calls: int = 0
    nano_usd: int = 0
    tokens: int = 0
    likely_nano_usd: int = 0
    likely_tokens: int = 0

    def add(self, held: Reservation, sign: Literal[1, -1] = 1) -> None:
        """Counts a call's reservation, or takes it off again."""
        self.calls += sign
        self.nano_usd += sign * held.bound.nano_usd
        self.tokens += sign * held.bound.tokens.total
        self.likely_nano_usd += sign * held.likely.nano_usd
        self.likely_tokens += sign * held.likely.tokens.total


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
        more = (bound.nano_usd, bound.tokens.total) * 2
        for cap, used, open_, mine, asked in zip(self.caps, self.spent, self.reserved, self.own, more, strict=False):
            if cap is None:
                continue
            if used + asked > cap:
                return "never"
            unfair = self.waiting and mine and mine + asked > (cap - used) / (1 + self.waiting)
            if unfair or used + open_ + asked > cap:
                room = "later"
        return room

    def take(self, bound: Usage) -> None:
        """Counts a further reservation of this process."""
        more = (bound.nano_usd, bound.tokens.total) * 2
        self.reserved = [had + asked for had, asked in zip(self.reserved, more, strict=False)]
        self.own = [had + asked for had, asked in zip(self.own, more, strict=False)]
