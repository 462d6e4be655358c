"""How fast a stage or a download goes on, and how long it still takes."""

import time
from collections.abc import Callable

NOTICEABLE = 2.0
"""Seconds after which people want to see how something goes on."""

_UNITS = ((1.0, "second"), (60.0, "minute"), (3600.0, "hour"))


class Pace:
    """Rate and remaining time of work that counts its finished parts.

    Parts that were finished before the first report, by an earlier attempt, count as done and not for the rate.

    Args:
        unit: Name of a part, for example `MB`; empty: none.
        clock: Seconds of a clock that never goes back.
    """

    def __init__(self, unit: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        self._unit, self._clock = f" {unit}" if unit else "", clock
        self._began = clock()
        self._first: float | None = None
        self.done, self.total, self.note = 0.0, 0.0, ""

    @property
    def seconds(self) -> float:
        """Seconds since the beginning."""
        return self._clock() - self._began

    def update(self, done: float, total: float, note: str = "") -> None:
        """Takes a report: parts done, parts in total."""
        if self._first is None:
            self._first = max(done - 1, 0) if total > 1 else done
        self.done, self.total, self.note = done, total, note

    def speed(self) -> str:
        """Returns rate and remaining time, for example `3.1 a second, 6 min left`."""
        finished = self.done - (self._first or 0)
        if finished <= 0 or self.seconds <= 0:
            return f"{show_seconds(self.seconds)} so far"
        rate = finished / self.seconds
        left = (self.total - self.done) / rate
        length, name = next((unit for unit in _UNITS if rate * unit[0] >= 1), _UNITS[-1])
        return f"{rate * length:,.1f}{self._unit} a {name}, {show_seconds(left)} left"

    def __str__(self) -> str:
        share = f" ({self.done / self.total:.0%})" if self.total else ""
        part = f"{self.done:,.0f} of {self.total:,.0f}{self._unit}{share}, " if self.total else ""
        said = f"{part}{self.speed()}"
        return f"{said}; {self.note}" if self.note else said


def show_seconds(seconds: float) -> str:
    """Returns a duration for people: `34 s`, `6 min`, `3 h 20 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
