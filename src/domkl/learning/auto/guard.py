"""Guard: labels that cannot be right count as little as they tell."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...base.types import Array
from ..fields import LARGEST, Concept, field


class Guard(Concept):
    """A label whose error e is beyond reach R counts as one with the error e (R/|e|)^2.

    R is the larger of `reach` robust deviations of the last errors and `near` ranges of the own labels. So a
    label a little beyond hardly changes, and one that is absurd has no effect. If most of the last labels are
    beyond R, the world has changed: labels count as they are, `gives_up` says so, and errors are forgotten.

    Examples
    --------
    >>> import numpy as np
    >>> from domkl.learning.auto.guard import Guard
    >>> guard = Guard(J=1, m=1)
    >>> for t in range(40):
    ...     _ = guard.bound(np.array([[t % 3 / 1.0]]), np.array([[1.0]]))
    >>> guard.bound(np.array([[1e9]]), np.array([[1.0]])).round(3).tolist()
    [[1.0]]
    """

    reach: float = 6.0  # robust deviations within which an error is usual
    near: float = 0.5  # ranges of the own labels within which it is usual, too
    window: int = 100  # errors that the robust deviation is taken from
    quantile: float = 0.8  # which of them it is
    last: int = 16  # labels of which most must be outside
    few: int = 2  # errors to know before anything is unusual
    ends: int = 4  # of labels learnt again, one in so many at each end may be wrong

    errors: Array = field("J w m", low=0.0)  # in units of the labels
    large: npt.NDArray[Any] = field("J l m", "bool", low=0, high=1)  # whether the last labels were outside
    least: Array = field("J m", first=LARGEST)  # the range of the own labels, as they were learnt
    most: Array = field("J m", first=-LARGEST)
    age: npt.NDArray[Any] = field("J m", "int64", low=0)  # labels that came

    def __init__(self, J: int, m: int, **chosen: float) -> None:
        self.choose(chosen)
        self.allocate(np.float64, J=J, m=m, w=self.window, l=self.last)

    def bound(self, y: Array, y_hat: Array, missing: npt.NDArray[np.bool_] | None = None) -> Array:
        """The labels (J, m) as they are to be learnt; those that are missing tell nothing."""
        error = np.minimum(np.abs(y - y_hat), LARGEST)
        with np.errstate(over="ignore"):
            reach = self.near * np.maximum(self.most - self.least, 0) + 1e-12
        large = (error > reach) & (self.age >= self.few)
        for j, i in np.argwhere(large).tolist():  # robust deviations matter for these alone
            reach[j, i] = max(reach[j, i], self.reach * self._deviation(j, i))
            large[j, i] = error[j, i] > reach[j, i]
        known = np.ones(y.shape, bool) if missing is None else ~missing
        J, I = np.nonzero(known)
        self.large[J, self.age[J, I] % self.last, I] = large[J, I]
        if large.any():
            factor = (reach / np.maximum(error, reach)) ** 2
            many = 2 * self.large.sum(1) > self.last
            y = np.where(large & ~many, y_hat + (y - y_hat) * factor, y)
        self.errors[J, self.age[J, I] % self.window, I] = error[J, I]
        self.age += known
        np.minimum(self.least, y, out=self.least, where=known)
        np.maximum(self.most, y, out=self.most, where=known)
        return y

    def recheck(self, row: int, y: Array) -> Array:
        """Labels (n, m) of a row that are learnt again: the first ones came before errors were known.

        One that lies `reach` times the range of most of them from their middle is bounded as above.
        """
        if (most := len(y) // self.ends) > 0:
            low, *_, high = np.sort(y, axis=0)[most : len(y) - most]
            middle, reach = np.median(y, axis=0), self.reach * (high - low)
            error = y - middle
            is_wrong = (np.abs(error) > reach) & (reach > 0)
            factor = (reach / np.where(is_wrong, np.abs(error), 1)) ** 2
            y = np.where(is_wrong, middle + error * factor, y)
        self.least[row], self.most[row] = y.min(0), y.max(0)
        return y

    def gives_up(self) -> npt.NDArray[np.bool_]:
        """Which rows (J,) see another world, and begin again."""
        # One label later than they count as they are, so that the last two are what the sensor said.
        rows = (2 * (self.large.sum(1) - 1) > self.last).any(-1)
        if rows.any():
            self.reset(rows)
        return np.asarray(rows)

    def _deviation(self, row: int, target: int) -> float:
        """The robust deviation of the last errors of a target."""
        errors = np.sort(self.errors[row, : int(self.age[row, target]), target])
        k = int(np.ceil(self.quantile * (len(errors) - 1)))
        return float(errors[k] / 1.2816)  # of a normal error, whose 0.8 quantile in size this is
