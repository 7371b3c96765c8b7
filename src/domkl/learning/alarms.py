"""Alarms where a reading is not what its model expects, at a rate of false alarms that is asked for.

Of each reading three scores are kept, all of them larger where something is wrong:

    error     the absolute error, in units of the recent ones
    drift     an average of the last signed errors, in the same units: small errors that add up
    repeats   how often in a row the label has not moved: a sensor that is stuck

A score's p-value is the part of the last `KEPT` scores that are as large (conformal prediction); among the
largest and beyond, where few are left to count, a generalised Pareto distribution fitted to these tells it.
The least of the three, times three, is the reading's `surprise`. An alarm is raised where that is at most the
rate asked for, corrected by how many alarms there have been too many or too few (adaptive conformal
inference): so the rate holds for streams whose errors change, and for scores that depend on each other.

A fault is not learnt away at once: what raised an alarm enters the scores kept as little more than the
largest of them, and moves the unit of errors by a bounded factor. Nor is anything silenced for ever: the
correction is bounded too.
"""

from __future__ import annotations

import bisect
import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..base import checks
from ..base.errors import InputError
from ..base.types import Array

#: What is kept a score of.
SCORES = ("error", "drift", "repeats")
#: Scores kept of each kind; no alarm before the first few. The part of them that the tail is fitted to.
KEPT, LEAST, TAIL = 2000, 100, 0.05
#: How fast the unit of errors and the drift follow, and how far one error moves them, in units.
UNIT_PACE, DRIFT_PACE, MOST = 0.02, 0.1, 4.0
#: The unit is at least this part of its own long average, which follows so fast.
UNIT_LEAST, LONG_PACE = 0.3, 0.001
#: A label that moves less than this part of what is usual has not moved.
STILL = 0.01
#: What an alarm's score counts for at most, in those of the largest kept.
GROWTH = 1.5
#: What one alarm too many does to the (logarithm of the) threshold, and how many count at most.
PUSH, DEBT = 0.1, 10.0
#: Shapes of a tail: bounded ones, and such as no window of this size can tell.
SHAPES = (-0.3, 0.5)
FEW = 10
ROW = 20
LEASTS = (0.0, 0.0, 1.0)


class Judgement(NamedTuple):
    """What is thought of one reading of each stream."""

    surprise: Array  # (J,) p-value: how probable a reading as odd as this one is
    alarm: npt.NDArray[np.bool_]  # (J,)


def check_rate(rate: float) -> float:
    """`rate` itself if alarms can be that frequent."""
    if not 0 < rate < 0.5:
        raise InputError(
            f"rate is {rate}; expected a number between 0 and 0.5, the part of readings that may raise a "
            "false alarm; write for example 0.001"
        )
    return float(rate)


class Alarms:
    """Judges the readings of J streams, each by itself.

    Parameters
    ----------
    rate : part of the readings without a fault that may raise an alarm.
    J : how many streams.

    Examples
    --------
    >>> import numpy as np
    >>> alarms, rng = Alarms(0.001), np.random.default_rng(0)
    >>> for noise in rng.standard_normal(1000):
    ...     judged = alarms.judge(20.0, 20 + noise)
    >>> alarms.judge(20.0, 40.0).alarm.tolist()
    [True]
    """

    def __init__(self, rate: float = 0.001, J: int = 1) -> None:
        self.rate = check_rate(rate)
        self.rows = [_Row() for _ in range(J)]

    def judge(self, y_hat: npt.ArrayLike, y: npt.ArrayLike) -> Judgement:
        """One reading of each stream: what was predicted, before it was learnt, and what came. (J,) each"""
        guesses, labels = np.atleast_1d(y_hat).tolist(), np.atleast_1d(y).tolist()
        found = [
            row.judge(*pair, self.rate)
            for row, *pair in zip(self.rows, guesses, labels, strict=True)  # type: ignore[arg-type]
        ]
        return Judgement(np.array([p for p, _ in found]), np.array([alarm for _, alarm in found]))

    def state(self) -> dict[str, Any]:
        """Everything known between two readings, by name; scores (J, 3, n), the rest (J, 8)."""
        return {
            "scores": np.array([[scores.values for scores in row.scores] for row in self.rows]),
            "levels": np.array([row.levels() for row in self.rows], np.float64),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Inverse of `state`."""
        for row, scores, levels in zip(self.rows, state["scores"], state["levels"], strict=True):
            row.restore(scores.tolist(), levels.tolist())


class _Row:
    """What is known of one stream."""

    def __init__(self) -> None:
        self.scores = [Scores((), least) for least in LEASTS]
        self.unit = self.long = 0.0  # of errors: recent, and in the long run
        self.drift = self.repeats = 0.0
        self.last, self.step = math.nan, 0.0  # the last label, and how far labels move
        self.alarms = 0.0
        self.debt, self.n = 0.0, 0.0  # alarms too many, and readings so far

    def levels(self) -> list[float]:
        """All but the scores."""
        return [self.unit, self.long, self.drift, self.repeats, self.last, self.step, self.debt, self.n]

    def restore(self, scores: list[list[float]], levels: list[float]) -> None:
        """Inverse of the scores' values and `levels`."""
        self.scores = [Scores(values) for values in scores]
        self.unit, self.long, self.drift, self.repeats, self.last, self.step, self.debt, self.n = levels

    def judge(self, y_hat: float, y: float, rate: float) -> tuple[float, bool]:
        """p-value and alarm of a reading, which is then taken into account."""
        found = self._score(min(max(y - y_hat, -checks.LARGEST), checks.LARGEST), y)
        surprise = min(1.0, len(SCORES) * min(map(Scores.p_value, self.scores, found)))
        alarm = self.n > LEAST and surprise <= rate * math.exp(-PUSH * self.debt)
        self.alarms = self.alarms + 1 if alarm else 0.0
        if self.alarms % ROW <= 1:
            for scores, score in zip(self.scores, found, strict=True):
                scores.add(score, alarm)
        self.debt = min(max(self.debt + alarm - rate, -DEBT), DEBT) if self.n > LEAST else 0.0
        return surprise, alarm

    def _score(self, error: float, y: float) -> tuple[float, float, float]:
        """The scores of a reading; units, drift and repeats follow it."""
        size, self.n = abs(error), self.n + 1
        unit = max(self.unit, UNIT_LEAST * self.long)
        odd = size / unit if unit > 0 else 0.0
        signed = math.copysign(min(odd, MOST), error)
        self.drift += DRIFT_PACE * (signed - self.drift)
        self.unit = _follow(self.unit, min(size, MOST * unit) if self.n > LEAST else size, self.n, UNIT_PACE)
        self.long = _follow(self.long, min(size, MOST * unit) if self.n > LEAST else size, self.n, LONG_PACE)
        self._count_repeats(y)
        return odd, abs(self.drift), self.repeats

    def _count_repeats(self, y: float) -> None:
        if self.n > 1:
            moved = min(abs(y - self.last), checks.LARGEST)
            self.repeats = self.repeats + 1 if moved <= STILL * self.step else 0.0
            self.step = _follow(self.step, moved if self.n < LEAST else min(moved, MOST * self.step), self.n, LONG_PACE)
        self.last = y


def _follow(level: float, value: float, n: float, pace: float) -> float:
    """A running average: of all values at first, then of the last ones."""
    return level + max(1 / n, pace) * (value - level)


class Scores:
    """The last scores of one kind, in their order and by size."""

    def __init__(self, values: Sequence[float] = (), least: float = 0.0) -> None:
        self.values, self.ordered, self.least = deque(values), sorted(values), least

    def add(self, score: float, alarm: bool) -> None:
        """One score more, the oldest is dropped; that of an alarm counts as little more than the largest."""
        if alarm:
            score = min(score, GROWTH * self.ordered[-1])
        self.values.append(score)
        bisect.insort(self.ordered, score)
        if len(self.values) > KEPT:
            del self.ordered[bisect.bisect_left(self.ordered, self.values.popleft())]

    def p_value(self, score: float) -> float:
        """How probable a score as large as this one is."""
        n = len(self.ordered)
        as_large = n - bisect.bisect_left(self.ordered, score)
        if n < LEAST or as_large >= FEW:
            return (as_large + 1) / (n + 1)
        part = math.ceil(TAIL * n)
        threshold, anchor = self.ordered[-part - 1], self.ordered[-FEW]
        tail = Tail.of(np.array(self.ordered[-part:]) - threshold, self.least)
        return (FEW + 1) / (n + 1) * tail.beyond(score - threshold) / tail.beyond(anchor - threshold)


class Tail(NamedTuple):
    """A generalised Pareto distribution of what is beyond a threshold."""

    shape: float
    scale: float

    @classmethod
    def of(cls, excess: Array, least: float) -> Tail:
        """With the moments of `excess`, in order: those weighted by probability (Hosking, Wallis 1987)."""
        k = len(excess)
        first = float(excess.mean())
        second = float((excess * (1 - (np.arange(1, k + 1) - 0.35) / k)).mean())
        if first <= least:
            return cls(0.0, least or 1.0)
        shape = 2 - first / (first - 2 * second) if first > 2 * second else SHAPES[1]
        shape = min(max(shape, SHAPES[0]), SHAPES[1])
        return cls(shape, first * (1 - shape))

    def beyond(self, x: float) -> float:
        """Probability of more than x."""
        if abs(self.shape) < 1e-6:
            return math.exp(-x / self.scale)
        return max(1 + self.shape * x / self.scale, 1e-9) ** (-1 / self.shape)
