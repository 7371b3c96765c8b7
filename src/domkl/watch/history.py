"""What was in the last hour, day and week, and in all the time, in a number of points that never grows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from ..base.types import Array
from ..learning.fields import LARGEST, Concept, field, scalar

#: Ranges of time that can be looked at, in seconds.
RANGES = {"hour": 3600.0, "day": 86_400.0, "week": 604_800.0, "all": math.inf}
#: Those that end, and the place of the one that does not.
SPANS, ALL = (3600.0, 86_400.0, 604_800.0), 3
#: Points of each range.
POINTS = 300
#: The latest time, in seconds since 1970, to which the clock of a history goes.
MOST_TIME = 1e12


class History(Concept):
    """Points of a few numbers each: the first of each 12 s, 5 min and 34 min, and every n-th of all.

    **Which range a point is in, its arrival tells, not the time that a reading names itself**: that may be
    absurd, go backwards, or be of years ago, as where a file is read again. A whole file comes within the
    last hour; so where the points of all the time are more than those of a range, they are shown for it. If
    our own clock is set back, the history goes on from its last point.

    >>> history = History(columns=2)
    >>> for second in range(7200):
    ...     if history.is_due(1e9 + second):
    ...         history.add((second, None))
    >>> [len(history.columns(name, 1e9 + 7200)[0]) for name in RANGES]
    [300, 225, 225, 225]
    >>> history.columns("day", 1e9 + 7200)[0][:3]
    [0.0, 32.0, 64.0]
    """

    times: Array = field("4 P", first=math.nan, low=0.0, high=MOST_TIME, missing=True)  # of arrival
    rows: Array = field("4 P C", first=math.nan, missing=True)
    counts: Array = field("4", "int64", low=0)  # points that each range has had, or has, of all the time
    now: float = scalar(low=0.0, high=MOST_TIME)
    seen: int = scalar("int64", low=0)
    every: int = scalar("int64", first=1, low=1)  # of what was seen, so many are one point of all the time
    newest: float = scalar(first=-1.0)  # the largest number in the first column

    def __init__(self, columns: int) -> None:
        self.allocate(P=POINTS, C=columns)
        self._shift = 0.0  # between our clock and the system's
        self._due = [0.0, 0.0, 0.0]  # when the next point of an hour, a day and a week is

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        newest = np.where(np.isnan(self.times), -1.0, self.times).max(1).tolist()
        self._due = [_end(last, span) for last, span in zip(newest, SPANS, strict=False)]

    def clear(self) -> None:
        """Forget all."""
        History.__init__(self, self.sizes["C"])

    def is_due(self, now: float) -> bool:
        """Whether any range keeps what comes now, in seconds since 1970; asked of everything once."""
        if now + self._shift < self.now:
            self._shift = self.now - now
        self.now = min(now + self._shift, MOST_TIME)
        self.seen += 1
        return self.now >= self._due[0] or (self.seen - 1) % self.every == 0

    def add(self, numbers: Sequence[Any]) -> None:
        """Keep what is due; what is no number, or an absurd one, is missing."""
        row = [number(each) for each in numbers]
        for k, span in enumerate(SPANS):
            if self.now >= self._due[k]:
                self._put(k, row)
                self._due[k] = _end(self.now, span)
        if (self.seen - 1) % self.every == 0:
            self._put(ALL, row)
            if self.counts[ALL] == POINTS:
                self._thin()
        self.newest = max(self.newest, row[0])

    def _put(self, k: int, row: list[float]) -> None:
        at = int(self.counts[k]) % POINTS
        self.times[k, at], self.rows[k, at] = self.now, row
        self.counts[k] += 1

    def _thin(self) -> None:
        """Of the points of all the time keep every other one, and half as many from now on."""
        self.every *= 2
        kept = len(range(0, POINTS, 2))
        for each in (self.times[ALL], self.rows[ALL]):
            each[:kept] = each[::2].copy()
            each[kept:] = math.nan
        self.counts[ALL] = kept

    def complete(self, first: float, column: int, value: float) -> None:
        """Put a number that was missing into the points with that number in the first column."""
        places = (self.rows[:, :, 0] == first) & np.isnan(self.rows[:, :, column])
        self.rows[places, column] = number(value)

    def columns(self, name: str, now: float) -> list[list[float | None]]:
        """A range as columns, in the order of arrival; None where a number is missing."""
        k, start = [*RANGES].index(name), max(self.now, now + self._shift) - RANGES[name]
        found = max(self._since(k, start), self._since(ALL, start), key=len)
        return [[None if value != value else value for value in column] for column in found.T.tolist()]

    def _since(self, k: int, start: float) -> Array:
        """Points of a range that came later than that. (n, C)"""
        shift = -int(self.counts[k]) if k != ALL else 0  # the oldest first
        times, rows = np.roll(self.times[k], shift), np.roll(self.rows[k], shift, axis=0)
        return np.asarray(rows[times > start])


def _end(time: float, span: float) -> float:
    """When the next point of a range is due after one of that time."""
    width = span / POINTS
    return (time // width + 1) * width


def number(value: Any) -> float:
    """A number that a history can hold; NaN for everything else."""
    is_number = isinstance(value, int | float) and abs(value) <= LARGEST
    return float(value) if is_number else math.nan


def seconds(time: Any) -> float:
    """A time as seconds since 1970; NaN where it is none."""
    if not isinstance(time, str):
        return number(time)
    try:
        return datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError):
        return math.nan
