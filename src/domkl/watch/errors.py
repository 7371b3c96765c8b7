"""Errors over time beside those of simple guesses, in little memory however long it runs."""

from __future__ import annotations

import math
from typing import Any

#: Samples over which errors are averaged.
ROLLING = 200
#: Points of a curve: where there are as many, every other one is dropped and half as many come.
MOST_POINTS = 400
#: The largest error that counts, also for what is no number; the square of a larger one would overflow.
MOST = 1e150


class Curve:
    """Points of a whole run, evenly spaced.

    >>> curve = Curve(most=4)
    >>> for t in range(10):
    ...     if curve.is_due(t):
    ...         curve.add((t,))
    >>> curve.points
    [(0,), (4,), (8,)]
    """

    def __init__(self, most: int = MOST_POINTS) -> None:
        self.points: list[tuple[Any, ...]] = []
        self._every, self._most = 1, most

    def is_due(self, t: int) -> bool:
        """Whether the point of round t is kept."""
        return t % self._every == 0

    def add(self, point: tuple[Any, ...]) -> None:
        """Keep a point."""
        self.points.append(point)
        if len(self.points) >= self._most:
            self._every *= 2
            self.points = self.points[::2]


class Guesses:
    """Rolling squared errors of a learner, of "no change" and of the mean so far, for one stream."""

    def __init__(self) -> None:
        self.count, self.error, self.no_change, self.mean = 0, 0.0, 0.0, 0.0
        self.last: float | None = None  # the last label that is known
        self._sum, self.labels = 0.0, 0

    def now(self) -> tuple[float | None, float]:
        """What the simple guesses say of the next label."""
        return self.last, self._sum / self.labels if self.labels else 0.0

    def judge(self, y: float, y_hat: float, guessed: tuple[float | None, float]) -> None:
        """A label has come, and these had been guessed."""
        last, mean = guessed
        if last is not None:  # the first label is a surprise to everybody, so it says nothing
            self.count += 1
            share = 1 / self.count if self.count < ROLLING else 1 / ROLLING
            self.error += share * (_square(y - y_hat) - self.error)
            self.no_change += share * (_square(y - last) - self.no_change)
            self.mean += share * (_square(y - mean) - self.mean)
        self.last = y
        self._sum += y
        self.labels += 1

    def roots(self) -> tuple[float | None, float | None, float | None]:
        """Root mean squared errors: the learner's, of no change, of the mean; None at first."""
        if not self.count:
            return None, None, None
        return math.sqrt(self.error), math.sqrt(self.no_change), math.sqrt(self.mean)


def _square(miss: float) -> float:
    size = abs(miss)
    return size * size if size < MOST else MOST * MOST
