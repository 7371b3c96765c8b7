"""Guesses that need no learner: what anybody would say who knows the labels so far."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ..base.types import Array
from .forecast import APART, DAY, HOUR, KEPT_VALUES, WEEK, Past

#: What is tried; the day and the week need times.
LAST, YESTERDAY, WEEK_AGO, HOURLY, MEAN = (
    "last value",
    "same time yesterday",
    "same time last week",
    "mean of the hour",
    "mean so far",
)


class Guesser:
    """The simple guesses for one stream, or for the part of it with one category.

    >>> guesser = Guesser()
    >>> for hour in range(48):
    ...     guesser.learn(3600.0 * hour, hour)
    >>> found = guesser.guess(48 * 3600.0)
    >>> found["last value"], found["same time yesterday"], found["mean of the hour"]
    (47.0, 24.0, 12.0)
    """

    def __init__(self) -> None:
        self.past: Past | None = None  # until a label has a time
        self.last = self.mean = 0.0
        self.n = 0
        self.sums, self.counts = np.zeros(24), np.zeros(24)

    def learn(self, time: float, y: float) -> None:
        """A label, and its time; NaN where it has none."""
        self.last, self.n = float(y), self.n + 1
        self.mean += (y - self.mean) / self.n
        if math.isfinite(time):
            self.past = self.past or Past(KEPT_VALUES, APART)
            self.past.add(time, float(y))
            hour = int(time // HOUR) % 24
            self.sums[hour] += y
            self.counts[hour] += 1

    def guess(self, time: float) -> dict[str, float]:
        """What each says of a label at a time; the last value where it says nothing."""
        found = {LAST: self.last, MEAN: self.mean}
        if math.isfinite(time):
            hour, before = int(time // HOUR) % 24, np.full(2, np.nan)
            if self.past is not None:
                before = self.past.nearest(time - np.array([DAY, WEEK]), 1.5 * HOUR)
            before = np.where(np.isnan(before), self.last, before)
            found |= dict(zip((YESTERDAY, WEEK_AGO), before.tolist(), strict=True))
            found[HOURLY] = float(self.sums[hour] / self.counts[hour]) if self.counts[hour] else self.last
        return found


def simple_guesses(
    y: Array,
    times: Array | None = None,
    delay: int | Array = 0,
    groups: npt.NDArray[np.int_] | None = None,
) -> dict[str, Array]:
    """Each simple guess of one learner's labels (T,), of those known so far; also of its own group's.

    `delay` as in `simulate`; times (T,) in seconds; groups (T,) are numbers of categories.
    """
    when = np.full(len(y), np.nan) if times is None else times
    found = _of_groups(y, when, delay, np.zeros(len(y), int))
    if groups is not None and len(np.unique(groups)) > 1:
        found |= {
            f"{name}, same category": value for name, value in _of_groups(y, when, delay, groups).items()
        }
    return found


def _of_groups(y: Array, times: Array, delay: int | Array, groups: npt.NDArray[np.int_]) -> dict[str, Array]:
    guessers = {group: Guesser() for group in np.unique(groups).tolist()}
    rows, told = [], np.arange(len(y)) + delay  # the rounds after which labels are known
    order, next_one = np.argsort(told, kind="stable"), 0
    for t, group in enumerate(groups.tolist()):
        while told[order[next_one]] < t:
            known = order[next_one]
            guessers[int(groups[known])].learn(float(times[known]), float(y[known]))
            next_one += 1
        rows.append(guessers[group].guess(float(times[t])))
    names = set.union(*map(set, rows))
    return {name: np.array([row.get(name, row[LAST]) for row in rows]) for name in sorted(names)}
