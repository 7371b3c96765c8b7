"""The unit of each learner's labels: a sensor may change it, and the models go on in the first one."""

from __future__ import annotations

import itertools
import math
from typing import ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from ...base.types import Array
from .constants import C

#: The median error that a line leaves, in units of the predictions; its shift; its factor.
Line: TypeAlias = tuple[float, float, float]
NO_LINE: Line = (math.inf, 0.0, 1.0)
#: The most and, inverted, the least that one unit may be of another.
MOST = 1e15
#: Two units that differ by less are one.
SAME = 1e-9


class LabelUnit:
    """Of J learners: what is measured now is shift + factor * what it would have been in the first unit."""

    FIELDS: ClassVar = ("shift", "factor")

    def __init__(self, J: int) -> None:
        self.shift, self.factor = np.zeros(J), np.ones(J)

    def first(self, y: Array) -> Array:
        """Labels (J,) in the first unit."""
        return np.asarray((y - self.shift) / self.factor)

    def now(self, y: Array) -> Array:
        """Predictions in the first unit (J, ...) in the present one."""
        wide = (len(self.shift), *[1] * (y.ndim - 1))
        return np.asarray(self.shift.reshape(wide) + self.factor.reshape(wide) * y)

    @property
    def is_another(self) -> npt.NDArray[np.bool_]:
        """Whose unit is not the first one. Booleans (J,)"""
        return np.asarray((self.shift != 0) | (self.factor != 1))

    def way_back(self, row: int) -> tuple[float, float]:
        """Shift and factor of learner `row` that lead back to the first unit."""
        factor = float(self.factor[row])
        return -float(self.shift[row]) / factor, 1 / factor

    def allows(self, row: int, factor: float) -> bool:
        """Whether labels of learner `row` may be so many times as large as before."""
        return 1 / MOST <= float(self.factor[row]) * factor <= MOST

    def change(self, shift: Array, factor: Array) -> None:
        """Labels are shift + factor * those in the unit so far. (J,) each"""
        both = self.shift + self.factor * shift, self.factor * factor
        is_first = (np.abs(both[1] - 1) < SAME) & (np.abs(both[0]) <= SAME * np.abs(self.shift))
        self.shift, self.factor = np.where(is_first, 0.0, both[0]), np.where(is_first, 1.0, both[1])


def line_of(guesses: list[float], labels: list[float], usual: float) -> tuple[float, float] | None:
    """Shift and factor that lead from predictions to labels; only one of them if both together do not.

    None where the labels, led back, are further from their predictions than `unit_fits` times the usual
    error: then something else has changed.
    """
    one = min(_only_shift(guesses, labels), _only_factor(guesses, labels))
    for off, shift, factor in (_both(guesses, labels), one):
        if off <= C.unit_fits * usual:
            return shift, factor
    return None


def _only_shift(guesses: list[float], labels: list[float]) -> Line:
    return _line(guesses, labels, 1.0)


def _only_factor(guesses: list[float], labels: list[float]) -> Line:
    factors = sorted(y / guess for guess, y in zip(guesses, labels, strict=True) if guess)
    return _line(guesses, labels, factors[len(factors) // 2], 0.0) if factors else NO_LINE


def _both(guesses: list[float], labels: list[float]) -> Line:
    """Theil and Sen's line: the median of all slopes between two labels."""
    pairs = itertools.combinations(zip(guesses, labels, strict=True), 2)
    slopes = sorted((b[1] - a[1]) / (b[0] - a[0]) for a, b in pairs if a[0] != b[0])
    return _line(guesses, labels, slopes[len(slopes) // 2]) if slopes else NO_LINE


def _line(guesses: list[float], labels: list[float], factor: float, shift: float | None = None) -> Line:
    rests = [y - factor * guess for guess, y in zip(guesses, labels, strict=True)]
    shift = sorted(rests)[len(rests) // 2] if shift is None else shift
    off = sorted(abs(rest - shift) for rest in rests)[len(rests) // 2]
    is_line = 0 < factor < math.inf and math.isfinite(shift)  # no unit turns the order round
    return (off / factor, shift, factor) if is_line else NO_LINE
