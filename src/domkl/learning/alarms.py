"""Alarms where a reading is not what its model expects, at a rate of false alarms that is asked for.

Of each reading three scores are computed, all of them larger where something is wrong:

    error     the absolute error, in units of the recent ones
    drift     sum of what signed errors exceed one unit by (CUSUM): small errors that add up
    repeats   how often in a row the label has not moved: a sensor that is stuck

A score's p-value is the part of the last `KEPT` scores that are as large (conformal prediction); beyond the
largest `FEW`, where too few are left to count, a generalised Pareto distribution fitted to the largest tells
it. The least of the three, times three, is the reading's `surprise`. An alarm is raised where that is at most
the rate asked for, corrected by how many alarms there have been too many or too few (adaptive conformal
inference): so the rate holds for streams whose errors change, and for scores that depend on each other.

A fault is not learnt away at once: an alarm's scores count as little more than the largest kept, those of the
next `PAUSE` readings do not count, and one error moves the unit by a bounded factor. Nor is anything silenced
for ever: the correction is bounded, and the unit goes on following the errors. In the `PAUSE` after an alarm
only what is much odder raises another, so that one event is not reported with every reading.
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
from .fields import Concept, scalar

#: What there are scores of.
SCORES = ("error", "drift", "repeats")
#: How many scores of each kind are kept, and before how many readings no alarm is raised.
KEPT, LEAST = 2000, 100
#: The part of the scores that a tail is fitted to, and how many of the largest are not counted but fitted.
TAIL, FEW = 0.05, 10
#: Shapes that a tail may have: the moments of so few scores tell no others from chance.
SHAPES = (-0.3, 0.5)
#: How fast the unit of errors follows them, the recent ones and all, and how far one error reaches, in units.
RECENT, LONG, MOST = 0.02, 0.001, 4.0
#: The unit of recent errors is at least this part of that of all.
UNIT_LEAST = 0.3
#: What a signed error may be, in units, without adding to the drift.
ALLOWED = 1.0
#: A label that moves by less than this part of what is usual has not moved.
STILL = 0.01
#: A label may be any number.
FINITE = float(np.finfo(float).max)
#: What an alarm's score counts for at most, in those of the largest kept; readings after it that do not.
GROWTH, PAUSE = 1.5, 50
#: Part of the threshold while the last alarm is that fresh: what follows has to be odder to raise another.
AGAIN = 0.1
#: What one alarm too many does to the logarithm of the threshold; how many too few or too many count at most.
PUSH, CREDIT, DEBT = 0.3, 8.0, 4.0


class Judgement(NamedTuple):
    """What is thought of one reading of each stream."""

    surprise: Array  # (J,) p-value: how probable a reading is that is as odd as this one
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
        """One reading of each stream: what was predicted before its label was learnt, and the label. (J,)"""
        guesses, labels = np.atleast_1d(np.asarray(y_hat, float)), np.atleast_1d(np.asarray(y, float))
        both = zip(self.rows, guesses.tolist(), labels.tolist(), strict=True)
        found = [row.judge(guess, label, self.rate) for row, guess, label in both]
        return Judgement(np.array([p for p, _ in found]), np.array([alarm for _, alarm in found]))

    def peek(self, y_hat: float, y: float) -> float:
        """The surprise of a reading of one stream, which is not taken into account."""
        return self.rows[0].peek(y_hat, y)

    def is_alarm(self, surprise: float) -> bool:
        """Whether a reading of one stream that is so surprising raises an alarm now."""
        return self.rows[0].is_alarm(surprise, self.rate)

    def state(self) -> dict[str, Any]:
        """Everything known between two readings, by name."""
        return {"rows": [row.state() for row in self.rows]}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Inverse of `state`."""
        for row, kept in zip(self.rows, state["rows"], strict=True):
            row.restore(kept)


def judge_all(y_hat: npt.ArrayLike, y: npt.ArrayLike, rate: float, delay: int = 0) -> Judgement:
    """Judge whole streams, (J, T) each; the first prediction, made before any label, is not judged."""
    guesses, labels = checks.floats("y_hat", y_hat), checks.floats("y", y)
    checks.shape("y", labels, guesses.shape, "give one label for each prediction")
    alarms, first = Alarms(rate, len(guesses)), 1 + checks.count("delay", delay, least=0)
    surprise, alarm = np.ones(guesses.shape), np.zeros(guesses.shape, bool)
    for t in range(first, guesses.shape[1]):
        surprise[:, t], alarm[:, t] = alarms.judge(guesses[:, t], labels[:, t])
    return Judgement(surprise, alarm)


class _Row(Concept):
    """What is known of one stream."""

    n: float = scalar(low=0)  # readings so far
    unit: float = scalar(low=0)  # mean absolute error of recent readings
    long: float = scalar(low=0)  # and of many
    up: float = scalar(low=0)  # sums of errors
    down: float = scalar(low=0)
    repeats: float = scalar(low=0)  # labels in a row that did not move
    last: float = scalar(low=-FINITE, high=FINITE)  # the last label
    step: float = scalar(low=0)  # how far labels usually move
    debt: float = scalar(low=-CREDIT, high=DEBT)  # alarms too many
    pause: float = scalar(low=0, high=PAUSE)  # readings that do not count any more

    def __init__(self) -> None:
        self.allocate()
        self.scores = [Scores((), name == "repeats") for name in SCORES]

    def state(self) -> dict[str, Any]:
        return {**super().state(), "scores": np.array([kept.values for kept in self.scores], np.float64)}

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        scores = checks.finite("a score", state["scores"])[:, -KEPT:].tolist()
        self.scores = [Scores(kept, name == "repeats") for name, kept in zip(SCORES, scores, strict=True)]

    def judge(self, y_hat: float, y: float, rate: float) -> tuple[float, bool]:
        """p-value and alarm of a reading, which is then taken into account."""
        if not math.isfinite(y - y_hat):
            return 1.0, False
        found = self._score(y_hat, y)
        surprise = self._surprise(found)
        alarm = self.is_alarm(surprise, rate)
        self.pause = max(self.pause - 1, 0.0)
        if not self.pause:
            for kept, score in zip(self.scores, found, strict=True):
                kept.add(score, alarm)
            self.pause = float(PAUSE * alarm)
        if alarm:
            self.up = self.down = 0.0
        self.debt = min(max(self.debt + alarm - rate, -CREDIT), DEBT) if self.n > LEAST else 0.0
        return surprise, alarm

    def is_alarm(self, surprise: float, rate: float) -> bool:
        """Whether that is surprising enough."""
        again = AGAIN if self.pause else 1.0
        return self.n > LEAST and surprise <= again * rate * math.exp(-PUSH * self.debt)

    def peek(self, y_hat: float, y: float) -> float:
        """p-value of a reading, which changes nothing."""
        if not math.isfinite(y - y_hat):
            return 1.0
        before = super().state()
        surprise = self._surprise(self._score(y_hat, y))
        vars(self).update(before)
        return surprise

    def _surprise(self, found: Sequence[float]) -> float:
        return min(1.0, len(SCORES) * min(map(Scores.p_value, self.scores, found)))

    def _score(self, y_hat: float, y: float) -> tuple[float, float, float]:
        """The scores of a reading; all levels follow it."""
        self.n += 1
        error = min(max(y - y_hat, -checks.LARGEST), checks.LARGEST)
        size, unit = abs(error), max(self.unit, UNIT_LEAST * self.long)
        odd = min(size / unit, checks.LARGEST) if unit > 0 else 0.0
        signed = math.copysign(min(odd, MOST), error)
        self.up = max(self.up + signed - ALLOWED, 0.0)
        self.down = max(self.down - signed - ALLOWED, 0.0)
        self.unit = self._moved(self.unit, self._bounded(size, unit), RECENT)
        self.long = self._moved(self.long, self._bounded(size, self.long), LONG)
        self._note_label(y)
        return odd, max(self.up, self.down), self.repeats

    def _note_label(self, y: float) -> None:
        if self.n > 1:
            moved = min(abs(y - self.last), checks.LARGEST)
            self.repeats = self.repeats + 1 if moved <= STILL * self.step else 0.0
            self.step = self._moved(self.step, self._bounded(moved, self.step), LONG)
        self.last = y

    def _bounded(self, size: float, unit: float) -> float:
        """What may move a level: one reading moves it little once there have been some."""
        return min(size, MOST * unit) if self.n > LEAST and unit > 0 else size

    def _moved(self, level: float, value: float, pace: float) -> float:
        """A running average: of all values at first, then of the last ones."""
        return level + max(1 / self.n, pace) * (value - level)


class Scores:
    """The last scores of one kind, in their order and by size; `whole` where they are whole numbers."""

    def __init__(self, values: Sequence[float] = (), whole: bool = False) -> None:
        self.values, self.ordered, self.whole = deque(values), sorted(values), whole

    def add(self, score: float, alarm: bool) -> None:
        """One score more, the oldest is dropped; that of an alarm counts as little more than the largest."""
        if alarm:
            score = min(score, max(GROWTH * self.ordered[-1], 1.0))
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
        part = max(math.ceil(TAIL * n), FEW)
        threshold, largest = self.ordered[-part - 1], self.ordered[-FEW]
        tail = ParetoTail.of(np.array(self.ordered[-part:]) - threshold, self.whole)
        return (FEW + 1) / (n + 1) * tail.beyond(score - threshold) / tail.beyond(largest - threshold)


class ParetoTail(NamedTuple):
    """A generalised Pareto distribution of what is beyond a threshold."""

    shape: float
    scale: float

    @classmethod
    def of(cls, excess: Array, whole: bool) -> ParetoTail:
        """With the probability-weighted moments of `excess`, in order; counts fall off exponentially."""
        first = float(excess.mean())
        if whole or first <= 0:
            return cls(0.0, max(first, 1.0))
        k = len(excess)
        second = float((excess * (1 - (np.arange(1, k + 1) - 0.35) / k)).mean())
        shape = 2 - first / (first - 2 * second) if first > 2 * second else SHAPES[1]
        shape = min(max(shape, SHAPES[0]), SHAPES[1])
        return cls(shape, first * (1 - shape))

    def beyond(self, x: float) -> float:
        """Probability of more than x; never quite 0, as no fit is that sure."""
        if abs(self.shape) < 1e-6:
            return math.exp(-min(x / self.scale, 300.0))
        return float(max(1 + self.shape * min(x / self.scale, 1e30), 1e-9) ** (-1 / self.shape))


__all__ = ["Alarms", "Judgement", "judge_all"]


def __dir__() -> list[str]:
    return __all__
